"""Frames of the host link: encodes requests, and finds replies in the received bytes."""

import zlib
from dataclasses import dataclass

from matloom.arch.link import (
    CRC_BYTES,
    DELIMITER,
    HELLO,
    HELLO_BYTES,
    REPLY_HEADER_BYTES,
    SYNC,
    Request,
    Status,
)

#: Length of a group of stuffed bytes that does not end with a zero.
_GROUP_BYTES = 254

_END = bytes([DELIMITER])

_ATTEMPTS = 16


@dataclass(frozen=True, kw_only=True)
class Hello:
    """Identity of a device, with the fields of `matloom.arch.link.HELLO` as members."""

    identity: int
    clock_hz: int
    config_digest: int
    memory_base: int
    memory_bytes: int
    fresh: int
    board: str

    @classmethod
    def from_bytes(cls, data: bytes) -> "Hello":
        """Return the identity that the answer to a hello holds.

        Raises ValueError if the answer does not have `HELLO_BYTES` bytes.
        """
        if len(data) != HELLO_BYTES:
            raise ValueError(f"the answer to HELLO has {len(data)} bytes, not {HELLO_BYTES}")
        values: dict[str, bytes] = {}
        for item in HELLO:
            values[item.name], data = data[: item.bytes], data[item.bytes :]
        board = values.pop("board").rstrip(b"\0").decode("ascii", "replace")
        numbers = {name: int.from_bytes(value, "little") for name, value in values.items()}
        return cls(board=board, **numbers)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A reply with a correct checksum; `attempt` is that of the request that it answers."""

    kind: int
    attempt: int
    sequence: int
    data: bytes
    status: int


def _stuff(data: bytes) -> bytes:
    """Return bytes encoded without zeros (COBS).

    Each group begins with the distance to the zero that follows it.
    """
    stuffed = bytearray()
    for run in data.split(_END):
        while len(run) >= _GROUP_BYTES:
            stuffed.append(_GROUP_BYTES + 1)
            stuffed += run[:_GROUP_BYTES]
            run = run[_GROUP_BYTES:]
        stuffed.append(len(run) + 1)
        stuffed += run
    return bytes(stuffed)


def request_frame(
    kind: Request, sequence: int, length: int, address: int, data: bytes = b"", attempt: int = 0
) -> bytes:
    """Return the bytes of a request on the line, including delimiters, stuffing and checksum."""
    body = bytes([kind | attempt % _ATTEMPTS << 4, sequence])
    body += length.to_bytes(2, "little") + address.to_bytes(4, "little") + data
    body += zlib.crc32(body).to_bytes(CRC_BYTES, "little")
    return _END + _stuff(body) + _END


class ReplyParser:
    """Parser of replies in a stream of bytes, of which some may be lost, wrong or unrelated.

    Members
    -------
    lengths:
        Data lengths that replies may have at present; anything with another length is discarded.
    """

    def __init__(self) -> None:
        self.lengths: frozenset[int] = frozenset({0})
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Append bytes that were received from the line."""
        self._bytes += data

    def clear(self) -> None:
        """Discard all bytes that are not yet part of a reply."""
        self._bytes.clear()

    def skip(self) -> bool:
        """Discard the first byte of an incomplete reply; return whether there was one.

        `next` then looks for a reply in the bytes after it.
        """
        started = bool(self._bytes)
        del self._bytes[:1]
        return started

    def next(self) -> Reply | None:
        """Return and remove the next complete reply; None if there is none."""
        while True:
            start = self._bytes.find(SYNC)
            del self._bytes[: start if start >= 0 else len(self._bytes)]
            if len(self._bytes) < REPLY_HEADER_BYTES:
                return None
            length = int.from_bytes(self._bytes[3:5], "little")
            if length in self.lengths:
                end = REPLY_HEADER_BYTES + length + 1
                if len(self._bytes) < end + CRC_BYTES:
                    return None
                reply = self._check_reply(end)
                if reply is not None:
                    del self._bytes[: end + CRC_BYTES]
                    return reply
            del self._bytes[:1]

    def _check_reply(self, end: int) -> Reply | None:
        """Return the reply at the start of the buffer; None if its checksum or status is wrong.

        `end` is the number of bytes before the checksum.
        """
        frame = bytes(self._bytes[: end + CRC_BYTES])
        if zlib.crc32(frame[1:end]) != int.from_bytes(frame[end:], "little"):
            return None
        if frame[end - 1] not in {int(status) for status in Status}:
            return None
        return Reply(
            kind=frame[1] & 15,
            attempt=frame[1] >> 4,
            sequence=frame[2],
            data=frame[REPLY_HEADER_BYTES : end - 1],
            status=frame[end - 1],
        )
