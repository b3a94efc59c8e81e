"""widen.py OUT [GGUF]: the same GGUF file with every weight as the F32 number it stands for.

llama.cpp rounds activations when weights are quantised; with F32 weights it computes
from the same numbers as the unpacked model, in the same precision.
"""
import pathlib
import sys

import gguf

import unpack


def copy_fields(source, writer):
    for name, field in source.reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def main():
    out = pathlib.Path(sys.argv[1])
    source = unpack.Source(sys.argv[2] if len(sys.argv) > 2 else unpack.packaged_model())
    partial = out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, source.get("general.architecture"))
    copy_fields(source, writer)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for name in source.tensors:
        writer.add_tensor(name, source.array(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(out)


if __name__ == "__main__":
    main()
