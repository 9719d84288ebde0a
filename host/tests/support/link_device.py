"""The far end of the host link in Python, written from docs/link.md alone.

It shares only constants with the host's side and the hardware, so tests can compare them with it.
"""

import binascii
import struct
from collections.abc import Callable

from matloom.arch.link import (
    BOARD_BYTES,
    BUFFER_BYTES,
    CRC_BYTES,
    LINK_IDENTITY,
    REQUEST_HEADER_BYTES,
    SYNC,
    WINDOW_REQUESTS,
    Request,
    Status,
)
from matloom.device.transport import Transport

__all__ = ["LinkDevice"]

_WRITES = (Request.WRITE_REGISTERS, Request.WRITE_MEMORY)


class LinkDevice:
    """Registers and memory of a transport, served over the link's frames.

    Members
    -------
    writes:
        Each executed write: kind, address, data.

    Parameters
    ----------
    target:
        Transport to read and write; its `OSError` is a bus error.
    interrupt:
        Returns the cycles that a WAIT with a limit takes.
    """

    def __init__(
        self,
        target: Transport,
        *,
        clock_hz: int = 1_000_000,
        config_digest: int = 0,
        board: str = "python",
        interrupt: Callable[[int], int] = lambda cycles: 0,
    ) -> None:
        self._target, self._interrupt = target, interrupt
        self._identity = (clock_hz, config_digest, target.memory_base, target.memory_bytes)
        self._board = board.encode().ljust(BOARD_BYTES, b"\0")
        self.writes: list[tuple[Request, int, bytes]] = []
        self.restart()

    def restart(self) -> None:
        """Forget the session, as after a power cycle; the target is unchanged."""
        self._frame = bytearray()
        # Before the first delimiter nobody knows where in a frame it is.
        self._deaf = True
        self._session, self._fresh, self._due = False, 0, 0
        self._kept: dict[int, int] = {}

    def feed(self, data: bytes) -> bytes:
        """Process bytes from the line; return the answer."""
        answer = b""
        for byte in data:
            if byte:
                self._frame.append(byte)
                continue
            if self._frame and not self._deaf:
                answer += self._frame_ended(bytes(self._frame))
            self._frame.clear()
            self._deaf = False
        return answer

    def _frame_ended(self, stuffed: bytes) -> bytes:
        body = _unstuffed(stuffed)
        if (
            body is None
            or not REQUEST_HEADER_BYTES + CRC_BYTES <= len(body) <= BUFFER_BYTES
            or struct.pack("<I", binascii.crc32(body[:-CRC_BYTES])) != body[-CRC_BYTES:]
        ):
            return _reply(0, 0, b"", Status.BAD_FRAME)
        kind, sequence, length, address = struct.unpack_from("<BBHI", body)
        data = body[REQUEST_HEADER_BYTES:-CRC_BYTES]
        answer, status = self._answer(kind & 15, sequence, (length, address, data))
        return _reply(kind, sequence, answer, status)

    def _answer(
        self, kind: int, sequence: int, request: tuple[int, int, bytes]
    ) -> tuple[bytes, Status]:
        if kind == Request.HELLO:
            if not self._session or sequence != (self._due - 1) % 256:
                self._fresh = int(not self._session)
            self._session, self._due = True, (sequence + 1) % 256
            words = struct.pack("<6I", LINK_IDENTITY, *self._identity, self._fresh)
            return words + self._board, Status.OKAY
        if not self._session:
            return b"", Status.NO_SESSION
        age = (self._due - sequence) % 256
        if age > WINDOW_REQUESTS:
            return b"", Status.SEQUENCE
        if age and kind in _WRITES:
            return b"", Status(self._kept[sequence])
        answer, status = self._execute(kind, *request)
        if not age:
            self._kept[sequence] = status
            self._due = (sequence + 1) % 256
        return answer, status

    def _execute(self, kind: int, length: int, address: int, data: bytes) -> tuple[bytes, Status]:
        registers = kind in (Request.READ_REGISTERS, Request.WRITE_REGISTERS)
        wrong = len(data) != (length if kind in _WRITES else 0)
        if wrong or kind not in list(Request) or (registers and (address | length) % 4):
            return b"", Status.BAD_REQUEST
        if kind in _WRITES:
            self.writes.append((Request(kind), address, data))
        try:
            return self._access(Request(kind), length, address, data), Status.OKAY
        except OSError:
            return bytes(0 if kind in _WRITES else length), Status.BUS_ERROR

    def _access(self, kind: Request, length: int, address: int, data: bytes) -> bytes:
        target = self._target
        if kind is Request.WAIT:
            return struct.pack("<I", self._interrupt(address))
        if kind is Request.READ_MEMORY:
            return target.read_block(address, length)
        if kind is Request.WRITE_MEMORY:
            target.write_block(address, data)
        if kind is Request.WRITE_REGISTERS:
            for start in range(0, length, 4):
                target.write32(address + start, struct.unpack_from("<I", data, start)[0])
        if kind is Request.READ_REGISTERS:
            words = [target.read32(address + start) for start in range(0, length, 4)]
            return struct.pack(f"<{len(words)}I", *words)
        return b""


def _unstuffed(stuffed: bytes) -> bytes | None:
    """Return the bytes of a frame, or None if a group is incomplete."""
    body, place = bytearray(), 0
    while place < len(stuffed):
        code = stuffed[place]
        group = stuffed[place + 1 : place + code]
        if len(group) != code - 1:
            return None
        body += group
        place += code
        if code != 255 and place < len(stuffed):
            body.append(0)
    return bytes(body)


def _reply(kind: int, sequence: int, data: bytes, status: Status) -> bytes:
    frame = struct.pack("<BBH", kind, sequence, len(data)) + data + bytes([status])
    return bytes([SYNC]) + frame + struct.pack("<I", binascii.crc32(frame))
