"""Signatures between units, all from the initiator's view.

Memories have a fixed latency: a request granted in cycle t (`valid & ready`) has its data in cycle
t + latency, once, without backpressure. The latencies are constants here because initiators align
their pipelines to them.
"""

from amaranth.hdl import signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import HEAD, Opcode, fields_of

__all__ = [
    "ACC_READ_LATENCY",
    "ACC_UPDATE_LATENCY",
    "LOADS_AHEAD",
    "SPAD_READ_LATENCY",
    "SPAD_WRITE_LATENCY",
    "AccReadSignature",
    "AccUpdateSignature",
    "CommandSignature",
    "FaultSignature",
    "SpadReadSignature",
    "SpadWriteSignature",
    "access_bits",
    "body_layout",
    "mark_bits",
]

#: Cycles from the grant of a scratchpad read to its data.
SPAD_READ_LATENCY = 6

#: Reads granted at least this many cycles after the grant of a write see it.
SPAD_WRITE_LATENCY = 3

#: Maximum number of LOADs that have received all their beats and are not done: in pieces, in two
#: writes, and in the latency of a write.
LOADS_AHEAD = 3 + SPAD_WRITE_LATENCY

#: Cycles from the grant of an accumulator read to its data.
ACC_READ_LATENCY = 2

#: `Config.acc_update_latency` of an engine without floating-point modes.
ACC_UPDATE_LATENCY = Config().acc_update_latency

#: Width of scratchpad byte addresses.
SPAD_ADDRESS_BITS = 24

#: Width of accumulator entry addresses.
ACC_ADDRESS_BITS = 16


class SpadReadSignature(wiring.Signature):
    """Read `width` bytes at an address; `data` is valid `SPAD_READ_LATENCY` cycles later.

    The address may be that of any byte; for weights and blocks it is a multiple of
    `Config.weight_boundary`.

    `bank_select` has a bit for each scratchpad bank that the bytes touch (`bank_select_of`), so
    that the arbiter need not decode the address. Bytes beyond the end of the scratchpad read as
    undefined values, and never stall.
    """

    def __init__(self, width: int, banks: int):
        self.width = width
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "address": Out(SPAD_ADDRESS_BITS),
                "bank_select": Out(banks),
                "data": In(8 * width),
            }
        )


class SpadWriteSignature(wiring.Signature):
    """Write `width` bytes at any byte address under a `mask`.

    `data` follows the grant by one cycle.

    `address` may be negative modulo 2**24, or beyond the end, if the bytes outside the scratchpad
    are masked out. `bank_select` is as for a read.
    """

    def __init__(self, width: int, banks: int):
        self.width = width
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "address": Out(SPAD_ADDRESS_BITS),
                "bank_select": Out(banks),
                "data": Out(8 * width),
                "mask": Out(width),
            }
        )


class AccReadSignature(wiring.Signature):
    """Read one entry: a signed 32-bit sum for each column, column 0 in the low bits."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "address": Out(ACC_ADDRESS_BITS),
                "data": In(32 * config.columns),
            }
        )


class AccUpdateSignature(wiring.Signature):
    """Update the columns of an entry whose `mask` bit is set: replace or add.

    `data` follows the grant by one cycle.

    With `add` = 0 the entry is replaced. Sums wrap at 32 bits, or are fp32 numbers if `floating` is
    set (only with floating-point modes). Reads and updates granted at least
    `Config.acc_update_latency` cycles after the grant of an update see it.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "address": Out(ACC_ADDRESS_BITS),
                "add": Out(1),
                "data": Out(32 * config.columns),
                "mask": Out(config.columns),
                **({"floating": Out(1)} if config.has_float else {}),
            }
        )


def access_bits(config: Config) -> int:
    """Return the width of the signed scratchpad address of an access, which may be negative."""
    return 1 + config.spad_addr_bits


def mark_bits(config: Config) -> int:
    """Return the width of an instruction's timestamp."""
    return next(item.width(config) for item in HEAD if item.name == "timestamp")


def body_layout(opcode: Opcode, config: Config) -> data.StructLayout:
    """Return the layout of the fields that a unit needs: timestamp, then the body in ISA order.

    Each field is as wide as its legal values require (`Field.width`).
    """
    fields = {"timestamp": mark_bits(config)}
    for item in fields_of(opcode, config):
        width = item.width(config)
        fields[item.name] = signed(width) if item.signed else width
    return data.StructLayout(fields)


class CommandSignature(wiring.Signature):
    """Command port of a unit, as the dispatcher sees it.

    Members
    -------
    command:
        Instruction bodies (`body_layout`) in order. Their dependencies are met, except those of
        EXEC, which waits for them itself. LOAD and STORE take an instruction with its last row.
    busy:
        The unit is executing.
    done:
        High for one cycle per completed instruction, in order, when its effects are visible.
    done_mark:
        The timestamp of the instruction that completes.
    progress:
        The unit made progress; feeds the watchdog.
    """

    def __init__(self, opcode: Opcode, config: Config):
        super().__init__(
            {
                "command": Out(stream.Signature(body_layout(opcode, config))),
                "busy": In(1),
                "done": In(1),
                "done_mark": In(mark_bits(config)),
                "progress": In(1),
            }
        )


class FaultSignature(wiring.Signature):
    """Bus fault: `valid` for one cycle, with a `matloom.arch.csr.Fault` cause and an address."""

    def __init__(self):
        super().__init__({"valid": Out(1), "cause": Out(4), "address": Out(32)})
