"""Decodes the fields of a protobuf message without its schema, to recognise files."""

#: Bit of a varint's byte that is set if another byte follows.
_CONTINUATION_BIT = 0x80

#: Values of each field, by field number: integers for varints, bytes for all other wire types.
Message = dict[int, list[int | bytes]]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def decode_message(data: bytes) -> Message | None:
    """Return the fields of a message; None if the bytes are not a complete message.

    Wire format: https://protobuf.dev/programming-guides/encoding/
    """
    fields: Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if at < 0 or not 1 <= number < 1 << 29:
            return None
        if wire == _VARINT:
            value, at = _varint(data, at)
            if at < 0:
                return None
            fields.setdefault(number, []).append(value)
            continue
        if wire == _LENGTH:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            return None
        if at < 0 or at + size > len(data):
            return None
        fields.setdefault(number, []).append(data[at : at + size])
        at += size
    return fields


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at `offset`, and the offset of the byte after it.

    The result is (0, -1) if the varint is cut off, or longer than ten bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        if offset >= len(data):
            return 0, -1
        value |= (data[offset] & 0x7F) << shift
        offset += 1
        if data[offset - 1] < _CONTINUATION_BIT:
            return value, offset
    return 0, -1
