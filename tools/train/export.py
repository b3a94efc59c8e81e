"""Model directories in latentd's format: bf16 safetensors, config.json and their companions."""
import json
import shutil
import struct

import torch

TENSOR_PREFIX = "model."
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
GENERATION_CONFIG = {"bos_token_id": 0, "eos_token_id": 0, "temperature": 0.8, "top_p": 0.95}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_safetensors(path, state):
    """Writes the tensors as bf16 in the order given: an 8-byte length, a JSON header padded to a
    multiple of 8, the data without gaps."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in state.items():
        # bf16 has no NumPy type; its bits go through int16.
        data = tensor.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[TENSOR_PREFIX + name] = {"dtype": "BF16", "shape": list(tensor.shape),
                                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    """The state dict of a file from write_safetensors, as float32."""
    content = path.read_bytes()
    header_bytes = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8: 8 + header_bytes])
    data = memoryview(content)[8 + header_bytes:]
    state = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise ValueError(f"{path.name}: tensor {name} is {entry['dtype']}, expected BF16")
        begin, end = entry["data_offsets"]
        bits = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.bfloat16)
        state[name.removeprefix(TENSOR_PREFIX)] = bits.reshape(entry["shape"]).float()
    return state


def write_model_directory(directory, config, state, training, tokenizer_dir):
    directory.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        shutil.copyfile(tokenizer_dir / name, directory / name)
    write_json(directory / "config.json", config)
    write_json(directory / "generation_config.json", GENERATION_CONFIG)
    write_safetensors(directory / "model.safetensors", state)
    write_json(directory / "training.json", training)
