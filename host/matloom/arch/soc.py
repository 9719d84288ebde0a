"""Address map of the system on chip: regions, and registers of its peripherals."""

from dataclasses import dataclass

from matloom.arch.csr import Access, BitField, Register

#: Value of register ID of the system: "MS", and the version of this map.
SOC_IDENTITY = 0x4D53_0002

#: Bus address of external memory, as the engine's registers need it; the processor uses the
#: addresses of the regions below.
MEMORY_BASE = 0x8000_0000

#: Bytes in a line of the processor's caches.
LINE_BYTES = 32

#: Maximum number of characters of the board's name.
BOARD_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class SocRegion:
    """A region of the processor's address space.

    Members
    -------
    name, doc:
        Name and description for the header and the page.
    base, bytes:
        Start address and reserved size; a chip may have less memory.
    cached:
        Whether the processor caches it.
    """

    name: str
    base: int
    bytes: int
    cached: bool
    doc: str


REGIONS = (
    SocRegion(name="ROM", base=0x0000_0000, bytes=0x2000, cached=True, doc="boot ROM"),
    SocRegion(name="RAM", base=0x1000_0000, bytes=0x8000, cached=True, doc="block RAM"),
    SocRegion(
        name="MEMORY",
        base=0x4000_0000,
        bytes=0x3000_0000,
        cached=True,
        doc=f"external memory, which the engine sees at {MEMORY_BASE:#010x}",
    ),
    SocRegion(
        name="UNCACHED",
        base=0xC000_0000,
        bytes=0x3000_0000,
        cached=False,
        doc="the same memory, uncached",
    ),
    SocRegion(
        name="ENGINE",
        base=0xF000_0000,
        bytes=0x1000,
        cached=False,
        doc="the engine's registers (registers.md)",
    ),
    SocRegion(name="UART", base=0xF000_1000, bytes=0x1000, cached=False, doc="serial line"),
    SocRegion(name="TIMER", base=0xF000_2000, bytes=0x1000, cached=False, doc="timer"),
    SocRegion(
        name="INTERRUPTS", base=0xF000_3000, bytes=0x1000, cached=False, doc="interrupt controller"
    ),
    SocRegion(
        name="SYSTEM",
        base=0xF000_4000,
        bytes=0x1000,
        cached=False,
        doc="identity, clock, memory and bus errors",
    ),
)

#: Sources of interrupts, in the order of their bits.
INTERRUPTS = (
    ("engine", "the engine's interrupt"),
    ("uart", "UART: a byte was received and not yet read"),
    ("timer", "timer: COUNT >= COMPARE"),
)


def _bit_fields(*rows: tuple[str, int, int, str]) -> tuple[BitField, ...]:
    """Return bit fields from rows of name, position of the lowest bit, width and description."""
    return tuple(BitField(name=n, shift=s, bits=b, doc=d) for n, s, b, d in rows)


def _interrupt_bits() -> tuple[BitField, ...]:
    """Return a bit field for each source of interrupts."""
    return _bit_fields(*((name, bit, 1, doc) for bit, (name, doc) in enumerate(INTERRUPTS)))


def _plain_register(name: str, offset: int, access: Access, doc: str, reset: int = 0) -> Register:
    """Return a register without bit fields."""
    return Register(name=name, offset=offset, access=access, doc=doc, reset=reset)


_UART = (
    Register(
        name="DATA",
        offset=0x0,
        access=Access.RW,
        doc="a read removes and returns the oldest received byte, or 0 if there is none; "
        "a write sends a byte, or drops it if tx_ready is 0",
        fields=_bit_fields(("byte", 0, 8, "the byte")),
    ),
    Register(
        name="STATUS",
        offset=0x4,
        access=Access.W1C,
        doc="state of the line; write 1 to overrun to clear it; the other bits are read-only",
        fields=_bit_fields(
            ("rx_available", 0, 1, "a received byte can be read"),
            ("tx_ready", 1, 1, "DATA accepts a byte to send"),
            ("overrun", 2, 1, "a received byte was lost because the buffer was full"),
        ),
        reset=2,
    ),
    Register(
        name="DIVISOR",
        offset=0x8,
        access=Access.RW,
        doc="cycles per bit, at least 2; change it only while the line is idle; "
        "the board sets its first value",
        fields=_bit_fields(("cycles", 0, 16, "cycles per bit")),
    ),
)

_TIMER = (
    _plain_register(
        "COUNT_LOW", 0x0, Access.R, "cycles since reset, lower half; a read latches COUNT_HIGH"
    ),
    _plain_register("COUNT_HIGH", 0x4, Access.R, "upper half, as of the last read of COUNT_LOW"),
    _plain_register(
        "COMPARE_LOW", 0x8, Access.RW, "count to interrupt at, lower half", reset=0xFFFF_FFFF
    ),
    _plain_register(
        "COMPARE_HIGH", 0xC, Access.RW, "count to interrupt at, upper half", reset=0xFFFF_FFFF
    ),
    Register(
        name="CONTROL",
        offset=0x10,
        access=Access.RW,
        doc="control of the timer",
        fields=_bit_fields(("interrupt", 0, 1, "interrupt while COUNT >= COMPARE")),
    ),
)

_INTERRUPTS = (
    Register(
        name="PENDING",
        offset=0x0,
        access=Access.R,
        doc="active sources, enabled or not; clear each at its source",
        fields=_interrupt_bits(),
    ),
    Register(
        name="ENABLE",
        offset=0x4,
        access=Access.RW,
        doc="sources that may interrupt the processor",
        fields=_interrupt_bits(),
    ),
)

_SYSTEM = (
    _plain_register("ID", 0x0, Access.R, "identity and version of this map", SOC_IDENTITY),
    _plain_register("CLOCK_HZ", 0x4, Access.R, "clock frequency in Hz"),
    _plain_register("MEMORY_BASE", 0x8, Access.R, "bus address of external memory", MEMORY_BASE),
    _plain_register("MEMORY_BYTES", 0xC, Access.R, "bytes of external memory"),
    *(
        _plain_register(
            f"BOARD_{word}",
            0x10 + 4 * word,
            Access.R,
            f"board name, characters {4 * word} to {4 * word + 3}",
        )
        for word in range(BOARD_BYTES // 4)
    ),
    Register(
        name="ERRORS",
        offset=0x20,
        access=Access.W1C,
        doc="bus errors of the processor",
        fields=_bit_fields(
            ("failed", 0, 1, "an access to an unused address, or one that ended with an error")
        ),
    ),
    _plain_register("ERROR_ADDRESS", 0x24, Access.R, "address of the last failed access"),
    _plain_register("DATA_CACHE", 0x28, Access.R, "bytes of the data cache, 0 if there is none"),
)

#: Registers of each peripheral, by the name of its region.
PERIPHERALS = {"UART": _UART, "TIMER": _TIMER, "INTERRUPTS": _INTERRUPTS, "SYSTEM": _SYSTEM}

_REGIONS_BY_NAME = {item.name: item for item in REGIONS}


def region(name: str) -> SocRegion:
    """Return the region with an upper-case name; raise `KeyError` if there is none."""
    return _REGIONS_BY_NAME[name]


def soc_register(peripheral: str, name: str) -> Register:
    """Return the register with an upper-case name of a peripheral, also in upper case."""
    return next(item for item in PERIPHERALS[peripheral] if item.name == name)
