"""Bytes that LOADs bring for tiles of maps in external memory: hardly more than the map has."""

from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.ir.attributes import Pool2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import Chain, exact_programs
from support.instructions import loaded

NANO = PRESETS["nano"]


def test_tiles_of_different_channels_share_their_reads():
    """A tile of one row reads three, and a few positions more than it makes."""
    network = Chain((1, 20, 20, 4)).convolve(128).halve(stride=(1, 1)).convolve(4)
    (program,) = exact_programs(network.graph(), NANO, (None,))
    size = 20 * 20 * 128
    # The last layer reads its map once.
    assert loaded(program, Region.ARENA) <= 5 * size


def test_pools_of_large_maps_add_tap_by_tap():
    """A position reads more than fits a tile, but tiles have many: each row is read a few times."""
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.05,), zero_point=(3,))
    image = builder.input("image", (1, 6, 6, 1024), "int8", scale)
    pooled = builder.add(Op.AVERAGE_POOL_2D, [image], Pool2D(window=(6, 6), stride=(6, 6)))
    (program,) = exact_programs(builder.graph(pooled), NANO, (None,))
    assert loaded(program, Region.INPUT) <= 12 * 6 * 6 * 1024
