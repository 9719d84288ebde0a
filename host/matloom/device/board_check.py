"""Tests a board's memory over its line: writes, reads back and locates faults."""

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass

from matloom.arch.config import PRESETS
from matloom.device.frames import Hello
from matloom.device.transport import Transport

#: Bytes of a block. Blocks cross rows of the memory, because most memories have shorter rows.
_BLOCK_BYTES = 4096

#: Bytes at the start of the memory that are written again in short pieces, which need byte masks.
_PIECES_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class MemoryCheck:
    """Result of writing memory and reading it back.

    Members
    -------
    tested:
        Number of bytes tested; each is compared twice, unless the first comparison finds a fault.
    seconds:
        Duration of the test.
    fault:
        A sentence about the first wrong byte and the number of wrong bytes; "" if all are right.
    """

    tested: int
    seconds: float
    fault: str

    @property
    def is_correct(self) -> bool:
        """Whether all bytes were read back correctly."""
        return not self.fault

    @property
    def summary(self) -> str:
        """The result as a line of text."""
        verdict = "right" if self.is_correct else "wrong"
        return (
            f"memory: {self.tested} bytes written and read twice, {verdict}, {self.seconds:.1f} s"
        )


def describe(hello: Hello) -> list[str]:
    """Return lines of text on what a board reports about itself."""
    digest = hello.config_digest
    names = [name for name, config in PRESETS.items() if config.digest == digest]
    engine = names[0] if names else "none of the presets"
    return [
        f"board: {hello.board}, {hello.clock_hz / 1e6:g} MHz",
        f"engine: {engine}, configuration {digest:08x}",
        f"memory: {hello.memory_bytes} bytes at {hello.memory_base:#x}",
    ]


def check_memory(memory: Transport, tested: int, seed: int = 1) -> MemoryCheck:
    """Write about `tested` bytes, at least 4 KiB, to a memory and read them back.

    The blocks that are written lose their contents. They lie at both ends of the memory, at powers
    of two, and in between, so that a broken address or bank wire makes two blocks coincide; a small
    test omits some of them. All blocks are written before any is read: first with noise, then with
    its complement. Short pieces at arbitrary addresses follow, to test the byte masks.
    """
    began, noise = time.monotonic(), random.Random(seed)
    starts = _block_addresses(memory.memory_bytes, max(1, tested // _BLOCK_BYTES))
    contents = {start: noise.randbytes(_BLOCK_BYTES) for start in starts}
    fault = ""
    for flip in (0, 255):
        flipped = {at: bytes(byte ^ flip for byte in data) for at, data in contents.items()}
        for start, data in flipped.items():
            memory.write_block(memory.memory_base + start, data)
        fault = fault or _first_wrong_bytes(memory, flipped)
    fault = fault or _check_pieces(memory, noise)
    return MemoryCheck(
        tested=_BLOCK_BYTES * len(starts), seconds=time.monotonic() - began, fault=fault
    )


def _block_addresses(size: int, blocks: int) -> list[int]:
    """Return the start addresses of up to `blocks` blocks in a memory of `size` bytes, ascending.

    They are both ends, powers of two from the largest down, and evenly spaced addresses, in this
    order of preference.
    """
    most = max(0, size - _BLOCK_BYTES)
    powers = [1 << bit for bit in range(12, size.bit_length()) if 1 << bit <= most]
    even = [most * index // blocks // _BLOCK_BYTES * _BLOCK_BYTES for index in range(blocks)]
    # Largest powers first, so that a small test checks most wires.
    chosen = dict.fromkeys([0, most, *reversed(powers), *even])
    return sorted(list(chosen)[:blocks])


def _first_wrong_bytes(memory: Transport, contents: dict[int, bytes]) -> str:
    """Read blocks back; return a sentence about the wrong bytes, "" if there are none."""
    wrong: list[tuple[int, int, int]] = []
    for start, data in contents.items():
        found = memory.read_block(memory.memory_base + start, len(data))
        pairs = enumerate(zip(data, found, strict=True))
        wrong += [(start + at, wanted, got) for at, (wanted, got) in pairs if wanted != got]
    if not wrong:
        return ""
    address, wanted, got = wrong[0]
    again = memory.read_block(memory.memory_base + address, 1)[0]
    bits = _set_bits(one ^ other for _, one, other in wrong)
    second = "the same" if again == got else f"{again:#04x}"
    return (
        f"memory at {memory.memory_base + address:#x} holds {got:#04x}, not {wanted:#04x} "
        f"(read again: {second}): {len(wrong)} of {sum(map(len, contents.values()))} bytes "
        f"are wrong, in bits {bits} (docs/boards.md, When it fails)"
    )


def _set_bits(differences: Iterable[int]) -> str:
    """Return the indices of the bits that are 1 in any byte, as text."""
    differing = 0
    for each in differences:
        differing |= each
    return ", ".join(str(bit) for bit in range(8) if differing >> bit & 1)


def _check_pieces(memory: Transport, noise: random.Random) -> str:
    """Write pieces of one to seven bytes over known bytes, and read them back.

    Returns a sentence about the wrong bytes, "" if there are none.
    """
    expected = bytearray(noise.randbytes(_PIECES_BYTES))
    memory.write_block(memory.memory_base, bytes(expected))
    at = 1
    while at < _PIECES_BYTES - 8:
        piece = noise.randbytes(noise.randrange(1, 8))
        memory.write_block(memory.memory_base + at, piece)
        expected[at : at + len(piece)] = piece
        at += len(piece) + noise.randrange(1, 8)
    return _first_wrong_bytes(memory, {0: bytes(expected)})
