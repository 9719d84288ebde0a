"""Recognises ONNX files, which have no magic number."""

from matloom.frontend.protobuf import decode_message

#: Numbers of the fields that a ModelProto may have.
_FIELDS = frozenset({*range(1, 9), 14, 20, 25, 26})


def is_onnx(content: bytes) -> bool:
    """Return whether the content of a file may be a ModelProto, by its fields."""
    found = decode_message(content)
    if found is None or not set(found) <= _FIELDS:
        return False
    version = found.get(1, [None])[0]
    if not isinstance(version, int) or not 1 <= version <= 99:
        return False
    return isinstance(found.get(7, [None])[0], bytes) and isinstance(found.get(8, [b""])[0], bytes)
