"""Functions of a byte that differ by channel, such as PReLU, are lookups of the stage before."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Addend, Opcode, Table
from matloom.compiler import CheckError, CompileOptions, compile_unchecked
from matloom.ir.attributes import Arithmetic, Conv2D, Pad
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.schedule.commands.tables import Tables
from support.chain import exact_programs
from support.instructions import instructions

CONFIG = load_config("nano+lanes=4+tables=1+products=2+channel_tables=1")
X, Y = (
    Quantisation(scale=(scale,), zero_point=(zero,)) for scale, zero in ((0.05, -20), (0.04, 9))
)
SLOPES = Quantisation(scale=(0.006,), zero_point=(-30,))
WEIGHTS = Quantisation(scale=(0.01,), zero_point=(0,))


class Network(GraphBuilder):
    """Layers of a map of some channels, and functions of their bytes."""

    def __init__(self, shape, seed=0):
        super().__init__()
        self.shape = shape
        self.random = np.random.default_rng([seed, *shape])
        self.first = self.input("x", shape, "int8", X)

    def constants(self):
        data = self.random.integers(-128, 128, (1, 1, self.shape[-1]), np.int8)
        return self.constant(data, SLOPES)

    def convolution(self, source):
        channels = self.shape[-1]
        data = self.random.integers(-60, 60, (channels, 1, 1, channels), np.int8)
        weights = self.constant(data, WEIGHTS)
        return self.add(Op.CONV_2D, [source, weights], Conv2D(), quantisation=X)

    def sum(self, *sources):
        return self.add(Op.ADD, list(sources), Arithmetic(), quantisation=X)

    def maximum(self, source):
        """Add PReLU as a maximum of products."""
        product = self.add(Op.MUL, [source, self.constants()], Arithmetic(), quantisation=X)
        return self.add(Op.MAXIMUM, [product, source], quantisation=X)

    def rescaled_maximum(self, source):
        """Add PReLU with a change of scale in front of the maximum."""
        product = self.add(Op.MUL, [self.constants(), source], Arithmetic(), quantisation=X)
        sides = [self.add(Op.QUANTIZE, [each], quantisation=Y) for each in (source, product)]
        return self.add(Op.MAXIMUM, sides, quantisation=Y)

    def prelu(self, source):
        return self.add(Op.PRELU, [source, self.constants()], quantisation=Y)

    def line(self, source):
        """Add a product and a sum, each with a constant for each channel."""
        product = self.add(Op.MUL, [source, self.constants()], Arithmetic(), quantisation=X)
        return self.add(Op.ADD, [product, self.constants()], Arithmetic(), quantisation=Y)


def posts_with(program, table):
    return [post for post in instructions(program, Opcode.POST) if post.table == table]


def uses(program):
    """Return the number of POSTs that fill tables by channel, and that look up."""
    return tuple(len(posts_with(program, each)) for each in (Table.FILL_EACH, Table.LOOK_UP))


FUNCTIONS = ("maximum", "rescaled_maximum", "prelu", "line")


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.fast_cases(4)
def test_a_convolution_looks_its_results_up(name, channels):
    network = Network((1, 24, 20, channels))
    graph = network.graph(getattr(network, name)(network.convolution(network.first)))
    for program in exact_programs(graph, CONFIG, (None, 1)):
        fills, lookups = uses(program)
        assert fills == 1
        assert lookups == len(instructions(program, Opcode.POST)) - 1


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.fast_cases(2)
def test_a_sum_looks_its_results_up(name):
    """Blocks of channels take turns, the one whose tables are filled first."""
    network = Network((1, 24, 24, 8))
    total = network.sum(network.first, network.convolution(network.first))
    graph = network.graph(getattr(network, name)(total))
    for program in exact_programs(graph, CONFIG, (None, 1, 2)):
        fills, lookups = uses(program)
        assert fills == lookups // 2 + 1
        assert {post.x_step for post in posts_with(program, Table.LOOK_UP)} == {8}


@pytest.mark.parametrize("scale", [0.03, 0.08])
@pytest.mark.parametrize("narrow", [3, 4, 6])
@pytest.mark.fast_cases(2)
def test_a_sum_of_unequal_depths_looks_its_results_up(narrow, scale):
    """Of each block, POST brings those inputs that have its channels."""
    network = Network((1, 24, 24, narrow))
    data = network.random.integers(-60, 60, (8, 1, 1, narrow), np.int8)
    inputs = [network.first, network.constant(data, WEIGHTS)]
    made = Quantisation(scale=(scale,), zero_point=(5,))
    wide = network.add(Op.CONV_2D, inputs, Conv2D(), quantisation=made)
    padding = Pad(before=(0,) * 4, after=(0, 0, 0, 8 - narrow), value=None)
    padded = network.add(Op.PAD, [network.first], padding, quantisation=X)
    network.shape = (1, 24, 24, 8)
    graph = network.graph(network.prelu(network.sum(padded, wide)))
    for program in exact_programs(graph, CONFIG, (None, 1, 2)):
        fills, lookups = uses(program)
        # The block whose tables are filled comes first, and a mixed one is written twice.
        assert 0 < fills < lookups
        assert all(post.width == 1 for post in posts_with(program, Table.LOOK_UP))


@pytest.mark.parametrize("channels", [16, 32])
def test_lookups_behind_a_sum_of_results_precede_what_reads_them(channels):
    """The sum needs a table, too, which would be filled again for each tile."""
    network = Network((1, 40, 36, channels))
    first = network.convolution(network.first)
    total = network.sum(first, network.convolution(network.convolution(first)))
    graph = network.graph(network.convolution(network.prelu(total)))
    ordinary, *_others = exact_programs(graph, load_config("reference"), (None, 1, 2))
    made = instructions(ordinary, Opcode.POST)
    summed = [at for at, post in enumerate(made) if post.addend == Addend.RESULT]
    fills, lookups = (
        [at for at, post in enumerate(made) if post.table == table]
        for table in (Table.FILL_EACH, Table.LOOK_UP)
    )
    assert max(summed) < min(lookups) < max(lookups) < len(made) - 1
    # Blocks of channels take turns.
    assert len(fills) == (1 if channels == 16 else len(lookups) // 2 + 1)
    # Results of the last layer lie between lookups.
    assert max(lookups) - min(lookups) > len(lookups) + len(fills) - 2


def test_inputs_and_tensors_read_elsewhere_are_looked_up_by_a_stage_of_its_own():
    for late in (False, True):
        network = Network((1, 24, 24, 4))
        source = network.convolution(network.first) if late else network.first
        made = network.prelu(source)
        outputs = (made, network.sum(made, source)) if late else (made,)
        for program in exact_programs(network.graph(*outputs), CONFIG, (None, 1)):
            assert uses(program)[0] == 1


def test_two_functions_after_another_are_one():
    network = Network((1, 24, 20, 4))
    last = network.prelu(network.maximum(network.convolution(network.first)))
    (program,) = exact_programs(network.graph(last), CONFIG, (None,))
    assert uses(program)[0] == 1


@pytest.mark.parametrize(
    ("shape", "config"),
    [
        # Few positions for a table of 256 vectors, channels that are no whole blocks, no tables.
        ((1, 4, 5, 4), CONFIG),
        ((1, 24, 24, 6), CONFIG),
        ((1, 24, 20, 4), load_config("nano+lanes=4+tables=1+products=2")),
    ],
)
def test_others_stay_as_they_are(shape, config):
    network = Network(shape)
    graph = network.graph(network.maximum(network.convolution(network.first)))
    (program,) = exact_programs(graph, config, (None,))
    assert uses(program)[0] == 0


def test_lookups_are_proven(monkeypatch):
    """MAXIMUM of computed tensors has no proof, but a lookup has one."""
    network = Network((1, 24, 24, 8))
    total = network.sum(network.first, network.convolution(network.first))
    graph = network.graph(network.rescaled_maximum(total))
    without = load_config("nano+lanes=4+tables=1+products=2")
    assert compile_unchecked(graph, without, CompileOptions()).prove() == (0, 6)
    assert compile_unchecked(graph, CONFIG, CompileOptions()).prove() == (6, 6)

    def tables_of_another_block(tables, number, stage, block=0):
        return right(tables, number, stage, block and 1 - block)

    right = Tables.look_up
    monkeypatch.setattr(Tables, "look_up", tables_of_another_block)
    with pytest.raises(CheckError, match="bytes are wrong"):
        compile_unchecked(graph, CONFIG, CompileOptions()).prove()
