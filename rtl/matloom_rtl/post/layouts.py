"""Layouts of the streams between the parts of post-processing."""

from amaranth.hdl import signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config

__all__ = ["ParametersSignature", "position_layout", "table_row_signature", "vector_layout"]


def position_layout(config: Config) -> data.StructLayout:
    """Return the layout of a vector's position: scratchpad address, accumulator entry, and flags.

    `bank_select` has a bit for each bank that the first `columns` bytes of the vector touch.
    `block_end`: the vector is the last of its block of channels. `last_block`: it is in the last
    block. `end`: both.
    """
    return data.StructLayout(
        {
            # One bit more than an address: bytes beyond the end are in no bank.
            "address": config.spad_size_bits,
            "bank_select": config.spad_banks,
            "entry": config.acc_addr_bits,
            "block_end": 1,
            "last_block": 1,
            "end": 1,
        }
    )


def vector_layout(config: Config) -> data.StructLayout:
    """Return the layout of a vector for the lanes: 32 bits per column, and `ends_block`.

    `ends_block` marks the last vector of a block of channels.
    """
    return data.StructLayout({"values": 32 * config.columns, "ends_block": 1})


def table_row_signature(config: Config) -> wiring.Signature:
    """Return the signature of a stream of rows of `Config.table_row_bytes` bytes for a table."""
    return stream.Signature(8 * config.table_row_bytes)


class ParametersSignature(wiring.Signature):
    """Bias, multiplier and shift for each lane, from the current block of channels.

    Members
    -------
    ready: in
        The parameters of a block can be read from the next cycle on.
    release: out
        The current block is done. Its last multipliers remain readable until the lanes need them.
    beats: out
        For each lane, the index of the beat that enters it in this cycle.
    biases, shifts: in
        Bias and shift of each lane for that beat.
    multipliers: in
        Multipliers of the beat that entered `Lane.MULTIPLIER_DELAY` cycles earlier.
    """

    def __init__(self, config: Config):
        beats = config.columns // config.lanes
        super().__init__(
            {
                "ready": In(1),
                "release": Out(1),
                "beats": Out(data.ArrayLayout(range(max(2, beats)), config.lanes)),
                "biases": In(data.ArrayLayout(signed(32), config.lanes)),
                "shifts": In(data.ArrayLayout(signed(6), config.lanes)),
                "multipliers": In(data.ArrayLayout(31, config.lanes)),
            }
        )
