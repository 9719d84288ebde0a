"""What passes between the parts of post-processing."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.ports import ACC_ADDRESS_BITS, SPAD_ADDRESS_BITS

__all__ = ["ParametersSignature", "position_layout", "vector_layout"]


def position_layout() -> data.StructLayout:
    """Return a vector's place in the scratchpad and in the accumulators.

    `block_end`: it is the last of its block of channels; `last_block`: of the last block; `end`:
    both.
    """
    return data.StructLayout(
        {
            "address": SPAD_ADDRESS_BITS,
            "entry": ACC_ADDRESS_BITS,
            "block_end": 1,
            "last_block": 1,
            "end": 1,
        }
    )


def vector_layout(config: Config) -> data.StructLayout:
    """Return a vector on its way to the lanes: 32 bits a column; `ends_block` as `block_end`."""
    return data.StructLayout({"values": 32 * config.columns, "ends_block": 1})


class ParametersSignature(wiring.Signature):
    """Bias, multiplier and shift of each channel of the block at hand, for the lanes.

    Members
    -------
    ready: in
        Those below are of a block, from the next cycle on.
    release: out
        The block at hand is done with.
    biases, multipliers, shifts: in
        32, 32 and 8 bits a channel, channel 0 lowest.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "ready": In(1),
                "release": Out(1),
                "biases": In(32 * config.columns),
                "multipliers": In(32 * config.columns),
                "shifts": In(8 * config.columns),
            }
        )
