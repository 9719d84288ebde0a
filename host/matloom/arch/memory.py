"""External memory: its timing, its rules, and named examples."""

import dataclasses
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from matloom.errors import UserError, UserTypeError, unknown_name_error

#: Largest rate in bytes per cycle, which is that of the widest bus.
_MAX_RATE = 32

#: Largest denominator of the bytes per cycle.
_MAX_DENOMINATOR = 256

#: Bytes of the shortest row of an SDRAM.
_LEAST_ROW_BYTES = 64

#: Maximum cycles of a latency or of a row miss.
_MAX_LATENCY = 4096


class InvalidMemoryError(UserError):
    """A memory that breaks a rule; the message names the field, the rule and the value."""

    hint = "docs/performance.md has memories and their figures"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """External memory as the bus sees it, in cycles of the bus.

    Reads and writes are independent, like AXI's channels; each direction processes its bursts in
    order and keeps its own row open. Latencies of outstanding bursts overlap.

    Members
    -------
    bytes_per_cycle:
        Bytes per cycle in each direction, 1/256 to 32: an integer, a fraction, or a text such as
        ``"8/3"``. A narrower bus limits it further.
    read_latency:
        Cycles from the handshake of a read address to the first beat, 1 to 4096.
    write_latency:
        Cycles from the last beat of a write to its response, 1 to 4096.
    outstanding:
        Bursts in each direction that the memory accepts before it has answered the first, 1 to 64.
    row_bytes:
        Size in bytes of a row, a power of two from 64 to 65536; 0 if rows do not matter.
    row_miss_cycles:
        Extra cycles of a beat that is in a different row than the previous beat, 0 to 4096.

    Raises
    ------
    InvalidMemoryError
        A value breaks its rule.
    """

    bytes_per_cycle: Fraction | int | str = Fraction(_MAX_RATE)
    read_latency: int = 32
    write_latency: int = 8
    outstanding: int = 16
    row_bytes: int = 0
    row_miss_cycles: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes_per_cycle", _fraction(self.bytes_per_cycle))
        for name, low, high in (
            ("read_latency", 1, _MAX_LATENCY),
            ("write_latency", 1, _MAX_LATENCY),
            ("outstanding", 1, 64),
            ("row_bytes", 0, 1 << 16),
            ("row_miss_cycles", 0, _MAX_LATENCY),
        ):
            value = getattr(self, name)
            if type(value) is not int:
                raise InvalidMemoryError(f"{name} must be an integer, not {value!r}")
            if not low <= value <= high:
                raise InvalidMemoryError(f"{name} must be {low} to {high}, not {value}")
        if self.row_bytes and (
            self.row_bytes < _LEAST_ROW_BYTES or self.row_bytes & (self.row_bytes - 1)
        ):
            raise InvalidMemoryError(
                f"row_bytes must be 0 or a power of two from {_LEAST_ROW_BYTES} on, "
                f"not {self.row_bytes}"
            )
        if self.row_miss_cycles and not self.row_bytes:
            raise InvalidMemoryError(
                f"row_miss_cycles must be 0 without row_bytes, not {self.row_miss_cycles}"
            )

    @property
    def rate(self) -> Fraction:
        """Bytes per cycle, as a fraction."""
        assert isinstance(self.bytes_per_cycle, Fraction)
        return self.bytes_per_cycle

    @property
    def name(self) -> str:
        """Name of an equal entry of `MEMORIES`; a description of the timing if there is none."""
        for name, memory in MEMORIES.items():
            if memory == self:
                return name
        rows = f", {self.row_miss_cycles} for another row of {self.row_bytes} bytes"
        return (
            f"{self.rate} bytes per cycle, latencies {self.read_latency} and {self.write_latency}, "
            f"{self.outstanding} bursts" + (rows if self.row_miss_cycles else "")
        )

    def beat_cycles(self, bus_bytes: int) -> Fraction:
        """Return the cycles between two beats in the same row, at least one."""
        return max(Fraction(1), bus_bytes / self.rate)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of JSON types."""
        rate = self.rate
        shown = int(rate) if rate.denominator == 1 else str(rate)
        return {**dataclasses.asdict(self), "bytes_per_cycle": shown}

    def to_json(self) -> str:
        """Return the memory as a JSON text that `from_json` reads."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Memory":
        """Return the memory that a JSON text holds; raise `InvalidMemoryError` if it holds none."""
        try:
            values = json.loads(text)
        except (RecursionError, ValueError) as error:
            raise InvalidMemoryError(f"a memory must be JSON: {error}") from None
        if not isinstance(values, dict):
            raise InvalidMemoryError(f"a memory must be a JSON object, not {values!r}")
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name_error(
                    InvalidMemoryError, "a field of a memory", name, sorted(known)
                )
        return cls(**values)


def _fraction(value: Any) -> Fraction:
    """Return the bytes per cycle as a fraction; raise `InvalidMemoryError` if they break a rule."""
    try:
        if isinstance(value, bool):
            raise TypeError
        # The text of a number such as 2.5 is exact; its bits need not be.
        rate = value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, TypeError, ZeroDivisionError):
        raise InvalidMemoryError(
            f"bytes_per_cycle must be a number or a fraction such as '8/3', not {value!r}"
        ) from None
    if not Fraction(1, _MAX_DENOMINATOR) <= rate <= _MAX_RATE:
        raise InvalidMemoryError(
            f"bytes_per_cycle must be 1/{_MAX_DENOMINATOR} to {_MAX_RATE}, not {rate}"
        )
    if rate.denominator > _MAX_DENOMINATOR:
        raise InvalidMemoryError(
            f"bytes_per_cycle must have a denominator of at most {_MAX_DENOMINATOR}, not {rate}"
        )
    return rate


#: Memory that serves one beat per cycle on every bus, 32 cycles after the address.
REFERENCE_MEMORY = Memory()

#: Memories by name.
MEMORIES = {
    "reference": REFERENCE_MEMORY,
    # Block RAM next to the engine, reached over an interconnect with a register each way.
    "on-chip": Memory(read_latency=4, write_latency=3),
    # 16 bits of single-data-rate SDRAM at the engine's clock, up to 100 MHz: CAS latency 3, pages
    # of 512 columns, precharge and activation of 2 cycles each; 8 cycles for controller and pads.
    # (Winbond W9825G6KH, data sheet: tRP and tRCD 15 ns, 512 columns of 16 bits.)
    "sdram-16": Memory(
        bytes_per_cycle=2, read_latency=11, write_latency=6, row_bytes=1024, row_miss_cycles=4
    ),
    # The SDRAM of a ULX3S-25F with our controller (docs/sdram.md): 16 bits, less in refreshes of 12
    # cycles in each 650; 10 cycles, CAS latency 2, the 2 columns of a beat and 2 registers in the
    # pins; a write begins when all 16 beats of its burst have come. Rows are opened ahead.
    "ulx3s-sdram": Memory(bytes_per_cycle=Fraction(53, 27), read_latency=16, write_latency=42),
    # The SDRAM of a ULX3S-85F, at twice the engine's clock, on a bus of 64 bits with bursts of 32
    # beats: 32 bits per cycle less 12 of each 553; CAS latency 2 in cycles of the engine, 2 cycles
    # per beat, 5 registers in the pins, and a register each way between engine and controller.
    "ulx3s-sdram-64": Memory(bytes_per_cycle=Fraction(90, 23), read_latency=21, write_latency=76),
    # The SDRAM of a Tang Nano 20K: 32 bits less 12 cycles of each 843, one column per beat.
    "tang-nano-sdram": Memory(bytes_per_cycle=Fraction(71, 18), read_latency=15, write_latency=26),
    # The SDRAM of a Colorlight 5A-75B: 32 bits less 13 cycles of each 1171, and the unit that
    # replaces byte masks (matloom_rtl.sdram.merge): 4 cycles for reads, 5 for writes.
    "colorlight-sdram": Memory(
        bytes_per_cycle=Fraction(178, 45), read_latency=19, write_latency=31
    ),
    # Block RAM of a board without other memory (docs/boards.md, How it is made): the next burst of
    # writes waits two cycles for the response of the last, reads follow one another at once.
    "board-block": Memory(read_latency=7, write_latency=1, outstanding=2),
}

#: Memories of boards with their own engine and clock, by the name that a board reports.
BOARD_MEMORIES = {
    "arty-a7-35t": "board-block",
    "colorlight-5a75b": "colorlight-sdram",
    "orangecrab-85f": "board-block",
    "tang-nano-20k": "tang-nano-sdram",
    "ulx3s-25f": "ulx3s-sdram",
    "ulx3s-85f": "ulx3s-sdram-64",
}


#: Hint for an unknown memory name.
_NAME_HINT = 'leave it out for reference, or write a file of fields ({"read_latency": 40})'


def load_memory(source: "str | Path | Memory | None") -> Memory:
    """Return the memory that `source` names; None means the reference memory.

    A Memory is returned unchanged. A text is a name in `MEMORIES`, the name of a board
    (`BOARD_MEMORIES`), or the path of a JSON file.
    """
    if source is None:
        return REFERENCE_MEMORY
    if isinstance(source, Memory):
        return source
    if not isinstance(source, str | Path):
        raise UserTypeError(
            f"memory must be a name, a JSON file or a Memory, not {source!r}",
            hint="pass memory='NAME', a path, or a Memory",
        )
    name = BOARD_MEMORIES.get(str(source), str(source))
    if name in MEMORIES:
        return MEMORIES[name]
    path = Path(source)
    if path.suffix == ".json" and not path.exists():
        raise InvalidMemoryError(f"cannot read {path}: no such file", hint=_NAME_HINT)
    if not path.is_file():
        known = [*MEMORIES, *BOARD_MEMORIES]
        raise unknown_name_error(
            InvalidMemoryError, "memory", str(source), known, " or a JSON file", hint=_NAME_HINT
        )
    try:
        return Memory.from_json(path.read_text())
    except UnicodeDecodeError:
        raise InvalidMemoryError(
            f"memory must be a JSON file in UTF-8, not {str(source)!r}"
        ) from None
