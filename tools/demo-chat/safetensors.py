"""Writes a safetensors file: eight bytes of length, a JSON header, the data."""
import json


class Writer:
    """The shapes first, then the arrays in the same order, so that one is in memory at a time."""

    def __init__(self, path, shapes):
        """shapes: name -> shape, all F32."""
        header, place = {"__metadata__": {"format": "pt"}}, 0
        for name, shape in shapes.items():
            size = 4
            for n in shape:
                size *= int(n)
            header[name] = {"dtype": "F32", "shape": [int(n) for n in shape], "data_offsets": [place, place + size]}
            place += size
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 64)
        self.names = list(shapes)
        self.shapes = shapes
        self.file = open(path, "wb")
        self.file.write(len(text).to_bytes(8, "little") + text)

    def add(self, name, array):
        if name != self.names.pop(0) or tuple(array.shape) != tuple(self.shapes[name]):
            raise ValueError(f"{name} {array.shape} is not the tensor that comes next")
        self.file.write(array.astype("<f4").tobytes())

    def close(self):
        if self.names:
            raise ValueError(f"{self.names[0]} was not written")
        self.file.close()
