"""Address map of the system on chip: regions, and registers of its peripherals."""

from dataclasses import dataclass

from matloom.arch.csr import Access, BitField, Register

__all__ = [
    "BOARD_BYTES",
    "INTERRUPTS",
    "LINE_BYTES",
    "MEMORY_BASE",
    "PERIPHERALS",
    "REGIONS",
    "SOC_IDENTITY",
    "SocRegion",
    "region",
    "soc_register",
]

#: Value of register ID of the system: "MS", and the version of this map.
SOC_IDENTITY = 0x4D53_0002

#: Bus address of external memory: what the engine's registers are told, where the processor's
#: own addresses are those of a region below.
MEMORY_BASE = 0x8000_0000

#: Bytes of a line of the processor's caches.
LINE_BYTES = 32

#: Characters of the board's name.
BOARD_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class SocRegion:
    """A region of the processor's addresses.

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
        doc="the same memory, past the caches",
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
    SocRegion(name="SYSTEM", base=0xF000_4000, bytes=0x1000, cached=False, doc="what this is"),
)

#: Sources of interrupts, in the order of their bits.
INTERRUPTS = (
    ("engine", "the engine's interrupt"),
    ("uart", "UART: a received byte waits"),
    ("timer", "timer: COUNT has reached COMPARE"),
)


def _bits(*rows: tuple[str, int, int, str]) -> tuple[BitField, ...]:
    return tuple(BitField(name=n, shift=s, bits=b, doc=d) for n, s, b, d in rows)


def _sources() -> tuple[BitField, ...]:
    return _bits(*((name, bit, 1, doc) for bit, (name, doc) in enumerate(INTERRUPTS)))


def _plain(name: str, offset: int, access: Access, doc: str, reset: int = 0) -> Register:
    return Register(name=name, offset=offset, access=access, doc=doc, reset=reset)


_UART = (
    Register(
        name="DATA",
        offset=0x0,
        access=Access.RW,
        doc="a read takes the oldest received byte, 0 where there is none; "
        "a write sends a byte, which is lost unless tx_ready",
        fields=_bits(("byte", 0, 8, "the byte")),
    ),
    Register(
        name="STATUS",
        offset=0x4,
        access=Access.W1C,
        doc="state; a one in overrun clears it, the other bits are read alone",
        fields=_bits(
            ("rx_available", 0, 1, "a received byte waits"),
            ("tx_ready", 1, 1, "DATA takes a byte to send"),
            ("overrun", 2, 1, "a received byte was lost, as there was no room"),
        ),
        reset=2,
    ),
    Register(
        name="DIVISOR",
        offset=0x8,
        access=Access.RW,
        doc="cycles of a bit, 2 or more; to be changed while nothing is sent or comes; "
        "its first value is the board's",
        fields=_bits(("cycles", 0, 16, "cycles of a bit")),
    ),
)

_TIMER = (
    _plain("COUNT_LOW", 0x0, Access.R, "cycles since the reset; a read holds COUNT_HIGH"),
    _plain("COUNT_HIGH", 0x4, Access.R, "upper half of COUNT when COUNT_LOW was read"),
    _plain("COMPARE_LOW", 0x8, Access.RW, "when to interrupt", reset=0xFFFF_FFFF),
    _plain("COMPARE_HIGH", 0xC, Access.RW, "its upper half", reset=0xFFFF_FFFF),
    Register(
        name="CONTROL",
        offset=0x10,
        access=Access.RW,
        doc="what the timer does",
        fields=_bits(("interrupt", 0, 1, "interrupt while COUNT >= COMPARE")),
    ),
)

_INTERRUPTS = (
    Register(
        name="PENDING",
        offset=0x0,
        access=Access.R,
        doc="sources that ask now, enabled or not; each is cleared where it arises",
        fields=_sources(),
    ),
    Register(
        name="ENABLE",
        offset=0x4,
        access=Access.RW,
        doc="sources that may interrupt",
        fields=_sources(),
    ),
)

_SYSTEM = (
    _plain("ID", 0x0, Access.R, "identity and version of this map", SOC_IDENTITY),
    _plain("CLOCK_HZ", 0x4, Access.R, "cycles a second"),
    _plain("MEMORY_BASE", 0x8, Access.R, "bus address of external memory", MEMORY_BASE),
    _plain("MEMORY_BYTES", 0xC, Access.R, "bytes of external memory"),
    *(
        _plain(f"BOARD_{word}", 0x10 + 4 * word, Access.R, f"characters {4 * word} .. of its name")
        for word in range(BOARD_BYTES // 4)
    ),
    Register(
        name="ERRORS",
        offset=0x20,
        access=Access.W1C,
        doc="accesses of the processor that failed",
        fields=_bits(("failed", 0, 1, "an address without anything, or an error of the bus")),
    ),
    _plain("ERROR_ADDRESS", 0x24, Access.R, "address of the last access that failed"),
    _plain("DATA_CACHE", 0x28, Access.R, "bytes of the data cache, 0 where there is none"),
)

#: Registers of each peripheral, by the name of its region.
PERIPHERALS = {"UART": _UART, "TIMER": _TIMER, "INTERRUPTS": _INTERRUPTS, "SYSTEM": _SYSTEM}

_REGIONS_BY_NAME = {item.name: item for item in REGIONS}


def region(name: str) -> SocRegion:
    """Return a region by its upper-case name."""
    return _REGIONS_BY_NAME[name]


def soc_register(peripheral: str, name: str) -> Register:
    """Return a register by the upper-case names of its peripheral and its own."""
    return next(item for item in PERIPHERALS[peripheral] if item.name == name)
