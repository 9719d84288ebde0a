"""Protocol rules of both ports of a chip and of the devices connected to them, in one table."""

from dataclasses import dataclass

from matloom.arch.csr import register
from matloom.arch.isa import WRITABLE_REGIONS, Region

#: Channels by the prefix of their signals; True if the chip drives VALID.
CHANNELS = {
    "m_axi_ar": True,
    "m_axi_aw": True,
    "m_axi_w": True,
    "m_axi_r": False,
    "m_axi_b": False,
    "s_axil_ar": False,
    "s_axil_aw": False,
    "s_axil_w": False,
    "s_axil_r": True,
    "s_axil_b": True,
}

_ALL_CHANNELS = tuple(CHANNELS)
_CHIP = tuple(name for name, driven in CHANNELS.items() if driven)
_ADDRESSES = ("m_axi_ar", "m_axi_aw")
_ANSWERS = ("s_axil_r", "s_axil_b")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of the bus protocol: the channels for which it holds, and the template of a message.

    The placeholders of `sentence` are `value`, which was observed, and `limit`, which is allowed. A
    payload is shown with at most 64 bits.
    """

    name: str
    channels: tuple[str, ...]
    sentence: str


#: All rules; if a cycle breaks several, the first in this order is reported.
RULES = (
    Rule(
        name="reset_quiet",
        channels=_CHIP,
        sentence="VALID must be low from the first cycle of a reset on, not high in cycle {value}",
    ),
    Rule(
        name="valid_stays",
        channels=_ALL_CHANNELS,
        sentence="VALID must stay high until READY, not fall while {limit:#x} waits",
    ),
    Rule(
        name="payload_stays",
        channels=_ALL_CHANNELS,
        sentence="a payload must stay {limit:#x} until READY, not become {value:#x}",
    ),
    Rule(
        name="burst_kind",
        channels=_ADDRESSES,
        sentence="a burst must be of type INCR ({limit}), not {value}",
    ),
    Rule(
        name="burst_size",
        channels=_ADDRESSES,
        sentence="SIZE must be that of the whole bus ({limit}), not {value}",
    ),
    Rule(
        name="burst_attributes",
        channels=_ADDRESSES,
        sentence="LOCK, CACHE, PROT and QOS must be {limit:#x} together, not {value:#x}",
    ),
    Rule(
        name="burst_id",
        channels=("m_axi_aw",),
        sentence="all writes must have the ID {limit}, as responses keep the order, not {value}",
    ),
    Rule(
        name="burst_length",
        channels=_ADDRESSES,
        sentence="a burst must have at most {limit} beats, not {value}",
    ),
    Rule(
        name="burst_aligned",
        channels=_ADDRESSES,
        sentence="a burst must begin at a multiple of {limit} bytes, not at {value:#x}",
    ),
    Rule(
        name="burst_page",
        channels=_ADDRESSES,
        sentence="a burst must stay within 4 KiB, not go from {value:#x} to {limit:#x}",
    ),
    Rule(
        name="read_window",
        channels=("m_axi_ar",),
        sentence="a read must stay in a region, commands in PROGRAM, not go from {value:#x} to "
        "{limit:#x}",
    ),
    Rule(
        name="write_window",
        channels=("m_axi_aw",),
        sentence="a write must stay in region OUTPUT or ARENA, not go from {value:#x} to "
        "{limit:#x}",
    ),
    Rule(
        name="strobe_window",
        channels=("m_axi_w",),
        sentence="a byte that is written must be in region OUTPUT or ARENA, not at {value:#x}",
    ),
    Rule(
        name="outstanding",
        channels=_ADDRESSES,
        sentence="at most {limit} bursts must be outstanding, not {value}",
    ),
    Rule(
        name="write_last",
        channels=("m_axi_w",),
        sentence="WLAST must come with beat {limit} of a burst, not {value}",
    ),
    Rule(
        name="read_owed",
        channels=("m_axi_r",),
        sentence="a beat must be of a burst that was asked for, not of ID {value}",
    ),
    Rule(
        name="read_last",
        channels=("m_axi_r",),
        sentence="RLAST must be {limit} in this beat of a burst, not {value}",
    ),
    Rule(
        name="response_owed",
        channels=("m_axi_b",),
        sentence="a response must follow the address and the last beat of a write, {limit} of "
        "which await one",
    ),
    Rule(
        name="response_id",
        channels=("m_axi_b",),
        sentence="a response must have the ID of its write ({limit}), not {value}",
    ),
    Rule(
        name="response_code",
        channels=("m_axi_r", "m_axi_b", *_ANSWERS),
        sentence="a response must be OKAY, SLVERR or DECERR, not {value}",
    ),
    Rule(
        name="answer_owed",
        channels=_ANSWERS,
        sentence="an answer must follow its request, {limit} of which await one",
    ),
)

_BY_NAME = {rule.name: rule for rule in RULES}


def describe_broken_rule(name: str, channel: str, cycle: int, value: int, limit: int) -> str:
    """Return a monitor's message on a broken rule: rule, cycle, channel, and observed values.

    Raises
    ------
    ValueError
        The rule does not hold for the channel.
    """
    rule = _BY_NAME[name]
    if channel not in rule.channels:
        raise ValueError(f"rule {name} must be of {', '.join(rule.channels)}, not {channel}")
    sentence = rule.sentence.format(value=value, limit=limit)
    return f"bus rule {name} broken in cycle {cycle} on {channel}: {sentence}"


@dataclass(frozen=True, kw_only=True)
class RegionRegisters:
    """Offsets of the registers that place a region on the bus, and whether it may be written."""

    region: Region
    base_offset: int
    bytes_offset: int
    writable: bool


def region_registers() -> tuple[RegionRegisters, ...]:
    """Return the registers and the permitted accesses of each region, in the order of `Region`."""
    return tuple(
        RegionRegisters(
            region=region,
            base_offset=register(f"{region.name}_BASE").offset,
            bytes_offset=register(f"{region.name}_BYTES").offset,
            writable=region in WRITABLE_REGIONS,
        )
        for region in Region
    )
