"""The register map of the AXI4-Lite window: names, offsets, access and fields, once."""

import enum
from dataclasses import dataclass

from matloom.arch.config import INTERFACE_VERSION, Config
from matloom.arch.isa import Region

#: Value of the ID register: "ML", and the interface version.
IDENTITY = 0x4D4C_0000 | INTERFACE_VERSION

#: Size of the register window.
WINDOW_BYTES = 0x800

#: Width of an instruction's index within its unit, as in the register FAULT_INDEX.
UNIT_INDEX_BITS = 24

#: The completion-time table: one 32-bit cycle number for each timestamp.
TIMESTAMPS_OFFSET = 0x400


class Access(enum.Enum):
    """Access rights of a register; `W1C` bits clear where a one is written."""

    R = "r"
    RW = "rw"
    W1C = "w1c"
    WO = "wo"


class Fault(enum.IntEnum):
    """Cause of a fault, as in the register FAULT."""

    NONE = 0
    ILLEGAL_OPCODE = 1
    ILLEGAL_FIELD = 2
    SPAD_RANGE = 3
    ACC_RANGE = 4
    DRAM_RANGE = 5
    READ_ONLY_REGION = 6
    DEPENDENCY = 7
    COMMAND_RANGE = 8
    AXI_READ = 9
    AXI_WRITE = 10
    TIMEOUT = 11
    LIMIT = 12
    PARITY = 13


@dataclass(frozen=True, kw_only=True)
class BitField:
    """Bit field of a register."""

    name: str
    shift: int
    bits: int
    doc: str

    @property
    def mask(self) -> int:
        """Mask of the field's bits at their position in the register."""
        return ((1 << self.bits) - 1) << self.shift


@dataclass(frozen=True, kw_only=True)
class Register:
    """A 32-bit register at a byte offset."""

    name: str
    offset: int
    access: Access
    doc: str
    fields: tuple[BitField, ...] = ()
    reset: int = 0
    #: Whether the register is locked while the engine runs: a write then answers with an error.
    locked: bool = False
    #: Field of the configuration that the register needs; None if it always exists.
    needs: str | None = None

    @property
    def width(self) -> int:
        """Number of bits up to the end of the last field; 32 if there are no fields.

        Higher bits do not exist and read as zero.
        """
        return max((item.shift + item.bits for item in self.fields), default=32)


def _bit_fields(*rows: tuple[str, int, int, str]) -> tuple[BitField, ...]:
    """Return bit fields from rows of name, position of the lowest bit, width and description."""
    return tuple(BitField(name=n, shift=s, bits=b, doc=d) for n, s, b, d in rows)


_EVENTS = _bit_fields(
    ("done", 0, 1, "a command buffer ended"), ("fault", 1, 1, "a fault was recorded")
)

#: Causes to which each cycle of the execute unit is attributed. Each cycle has exactly one cause,
#: so these counters add up to `cycles`.
EXEC_CAUSES = (
    ("exec_stream", "a vector entered the array"),
    ("exec_wait_command", "no instruction"),
    ("exec_wait_input", "dependency on LOAD, which brings bytes of the network or fills"),
    ("exec_wait_post", "dependency on POST"),
    ("exec_wait_store", "dependency on STORE"),
    ("exec_wait_self", "dependency on an earlier EXEC"),
    ("exec_wait_weights", "the next weight tile was not in the shadow registers"),
    ("exec_wait_bank", "the scratchpad bank was busy"),
    ("exec_setup", "an instruction was being taken up"),
    ("exec_wait_sums", "sums that come again were not yet in the accumulators"),
    ("exec_wait_constants", "dependency on LOAD, which brings weights: from region PROGRAM"),
)

#: Counters, cleared by start and frozen by done or fault, in register order.
COUNTERS = (
    ("cycles", "clock cycles from start to done or fault"),
    ("instructions", "instructions dispatched"),
    *EXEC_CAUSES[:9],
    ("load_busy", "cycles with a LOAD under way"),
    ("post_busy", "cycles with a POST under way"),
    ("store_busy", "cycles with a STORE under way"),
    ("read_bursts", "AXI read bursts, commands included"),
    ("read_beats", "AXI read beats, commands included"),
    ("write_bursts", "AXI write bursts"),
    ("write_beats", "AXI write beats"),
    # Offsets never change: new counters come last.
    *EXEC_CAUSES[9:],
)

#: Offset of the first counter.
COUNTERS_OFFSET = 0x100


def _region_registers() -> tuple[Register, ...]:
    """Return the registers with the base address and the size of each region."""
    return tuple(
        Register(
            name=f"{region.name}_{kind}", offset=offset, access=Access.RW, doc=doc, locked=True
        )
        for region in Region
        for kind, offset, doc in (
            (
                "BASE",
                0x40 + 16 * region,
                f"AXI byte address of region {region.name}, a multiple of the bus width",
            ),
            ("BYTES", 0x48 + 16 * region, f"size of region {region.name}"),
        )
    )


#: Registers of every configuration.
REGISTERS = (
    Register(name="ID", offset=0x00, access=Access.R, doc="identity and interface version"),
    Register(name="DIGEST", offset=0x04, access=Access.R, doc="digest of the configuration"),
    Register(
        name="CONTROL",
        offset=0x08,
        access=Access.WO,
        doc="commands",
        fields=_bit_fields(
            ("start", 0, 1, "run the command buffer; ignored while busy or at fault"),
            ("reset", 1, 1, "let bus transfers end, then reset every unit"),
        ),
    ),
    Register(
        name="STATUS",
        offset=0x0C,
        access=Access.R,
        doc="state",
        fields=_bit_fields(
            ("busy", 0, 1, "running"),
            ("done", 1, 1, "the last run ended without fault"),
            ("fault", 2, 1, "stopped by a fault; only a reset leaves this state"),
            ("resetting", 3, 1, "waiting for bus transfers to end"),
        ),
    ),
    Register(
        name="IRQ_ENABLE", offset=0x10, access=Access.RW, doc="interrupt sources", fields=_EVENTS
    ),
    Register(
        name="IRQ_STATUS", offset=0x14, access=Access.W1C, doc="interrupt causes", fields=_EVENTS
    ),
    Register(
        name="COMMAND_OFFSET",
        offset=0x18,
        access=Access.RW,
        doc=(
            "first byte of the command buffer in region PROGRAM, a multiple of 16: "
            "anything else is a COMMAND_RANGE fault"
        ),
    ),
    Register(
        name="COMMAND_BYTES",
        offset=0x1C,
        access=Access.RW,
        doc=(
            "size of the command buffer, a multiple of 16: anything else is a COMMAND_RANGE fault"
        ),
    ),
    Register(
        name="TIMEOUT",
        offset=0x20,
        access=Access.RW,
        doc="cycles without any progress that make a fault, 0 for never; a value written while "
        "nothing moves counts from the next progress, or immediately if it was 0",
        reset=1 << 20,
    ),
    Register(
        name="FAULT",
        offset=0x24,
        access=Access.R,
        doc="fault record",
        fields=_bit_fields(
            ("cause", 0, 4, "see Fault"),
            ("unit", 4, 3, "0 dispatch, 1 LOAD, 2 EXEC, 3 POST, 4 STORE"),
            ("opcode", 8, 4, "opcode at fault"),
        ),
    ),
    Register(
        name="FAULT_INDEX",
        offset=0x28,
        access=Access.R,
        doc=(
            "number of the instruction at fault, from 0; for LIMIT, PARITY and AXI causes of LOAD "
            "and STORE, the number of the oldest instruction that the unit has not completed, "
            f"among its own, modulo 2 ** {UNIT_INDEX_BITS}"
        ),
    ),
    Register(
        name="FAULT_ADDRESS",
        offset=0x2C,
        access=Access.R,
        doc=(
            "bus address for AXI causes, end of the extent for range causes; "
            "0 for PARITY in the scratchpad, 1 in the accumulators"
        ),
    ),
    *_region_registers(),
    *(
        Register(name=name.upper(), offset=COUNTERS_OFFSET + 4 * index, access=Access.R, doc=doc)
        for index, (name, doc) in enumerate(COUNTERS)
    ),
)

#: Registers of any configuration; those that all configurations have come first.
ALL_REGISTERS = (
    *REGISTERS,
    Register(
        name="LIMIT",
        offset=0x30,
        access=Access.RW,
        doc=(
            "cycles that an instruction may be under way: more are a fault, which comes before "
            "twice as many and four have passed; 0 for any number"
        ),
        needs="time_limit",
    ),
)

#: Offsets reserved for later engines: first, last, and their purpose. No register
#: is there yet, so reads and writes answer with an error.
RESERVED = (
    (0x34, 0x34, "number of the engine, if several share a memory"),
    (0x80, 0xBC, "regions of a second command buffer, in the order of the first's"),
)

_BY_NAME = {item.name: item for item in ALL_REGISTERS}


def register(name: str) -> Register:
    """Return the register with an upper-case name; raise `KeyError` if there is none."""
    return _BY_NAME[name]


def registers_of(config: Config) -> tuple[Register, ...]:
    """Return the registers that an engine with this configuration has."""
    return tuple(
        item for item in ALL_REGISTERS if item.needs is None or getattr(config, item.needs)
    )
