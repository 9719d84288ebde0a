"""Lookup tables: their contents, and the stages that use them."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode, Table
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import Activation, Arithmetic, Conv2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from matloom.select.lookup import table_of
from matloom.verification.random_operators import RandomOperators
from support.instructions import instructions

CONFIG = PRESETS["reference"]
SHAPE = (1, 9, 7, 20)
#: Fits every operator used here: LOGISTIC fixes what it makes.
SCALE, LOGISTIC = (
    Quantisation(scale=(scale,), zero_point=(zero,)) for scale, zero in ((0.05, 7), (1 / 256, -128))
)


class Network(GraphBuilder):
    """A graph of operators on one int8 tensor, or of convolutions."""

    def __init__(self, seed=0):
        super().__init__("tables")
        self.instances = RandomOperators(seed)
        self.input("input", SHAPE, "int8", SCALE)

    def unary(self, op, source):
        return self.add(op, [source], quantisation=LOGISTIC if op is Op.LOGISTIC else SCALE)

    def multiplied(self, first, second):
        return self.add(Op.MUL, [first, second], Arithmetic())

    def convolution(self, source):
        weights = self.tensor(self.instances._weights((SHAPE[3], 1, 1, SHAPE[3]), 0))
        attributes = Conv2D(activation=Activation.RELU)
        return self.add(Op.CONV_2D, [source, weights], attributes, quantisation=SCALE)


def posts(graph, config=CONFIG, seed=None):
    """Compile, check the results, and return the POSTs."""
    program = compile_network(graph, config, CompileOptions(tiling_seed=seed))
    assert all(layer.where == "engine" for layer in program.layers)
    given = np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)
    found = load(program, device="model").run({"input": given})
    for number, array in interpret(graph, {0: given}).items():
        np.testing.assert_array_equal(found[graph.tensors[number].name], array)
    return instructions(program, Opcode.POST)


def kinds(found):
    return {kind: sum(post.table == kind for post in found) for kind in Table}


def test_a_table_has_the_operators_results():
    graph = Network().instances.network(
        Op.TANH, [replace(Network().tensors[0], shape=(256,), name="bytes")]
    )
    given = np.arange(256, dtype=np.uint8).view(np.int8)
    (made,) = interpret(graph, {0: given}).values()
    np.testing.assert_array_equal(table_of(graph, graph.nodes[0]).view(np.int8), made)


@pytest.mark.parametrize("seed", [None, 3, 4])
def test_a_convolution_looks_up_on_its_way(seed):
    network = Network()
    made = network.unary(Op.HARD_SWISH, network.convolution(0))
    found = kinds(posts(network.graph(made), seed=seed))
    assert found[Table.FILL] == 1
    assert found[Table.NONE] == 0


def test_a_table_after_a_table_is_one():
    network = Network()
    made = network.unary(Op.LOGISTIC, network.unary(Op.HARD_SWISH, network.convolution(0)))
    again = network.unary(Op.HARD_SWISH, network.convolution(made))
    found = kinds(posts(network.graph(again)))
    assert found[Table.FILL] == 2
    assert found[Table.NONE] == 0


def test_tensors_with_other_readers_are_looked_up_later():
    network = Network()
    kept = network.convolution(0)
    found = kinds(posts(network.graph(kept, network.unary(Op.HARD_SWISH, kept))))
    assert found[Table.NONE] > 0
    assert found[Table.FILL] == 1


def test_tensors_with_two_readers_are_looked_up_later():
    network = Network()
    made = network.convolution(0)
    result = network.multiplied(network.convolution(made), network.unary(Op.LOGISTIC, made))
    found = posts(network.graph(result))
    assert kinds(found)[Table.FILL] == 1
    assert any(post.product for post in found)


def test_a_convolution_times_its_own_gate_is_one_table():
    network = Network()
    made = network.convolution(0)
    found = posts(network.graph(network.multiplied(made, network.unary(Op.LOGISTIC, made))))
    assert kinds(found)[Table.FILL] == 1
    assert kinds(found)[Table.NONE] == 0
    assert not any(post.product for post in found)


def test_without_tables_the_host_looks_up():
    network = Network()
    graph = network.graph(network.unary(Op.HARD_SWISH, network.convolution(0)))
    program = compile_network(graph, replace(CONFIG, tables=0))
    assert [layer.where for layer in program.layers] == ["engine", "host"]


@pytest.mark.parametrize(
    ("given", "made"), [("int8", "uint8"), ("uint8", "int8"), ("uint8", "uint8")]
)
@pytest.mark.parametrize("device", ["model", "rtl"])
def test_unsigned_bytes(given, made, device):
    """All uint8 values, to another scale and zero point; expected values from real numbers."""
    zeros = {"int8": -3, "uint8": 125}
    network = GraphBuilder("bytes")
    scales = [
        Quantisation(scale=(scale,), zero_point=(zeros[dtype] + at,))
        for at, (dtype, scale) in enumerate(((given, 0.5), (made, 0.375)))
    ]
    source = network.input("t0", (1, 16, 16), given, scales[0])
    graph = network.graph(
        network.add(Op.QUANTIZE, [source], dtype=made, quantisation=scales[1], name="t1")
    )
    program = compile_network(graph, "reference", check="full")
    assert program.verdict.stages == (1, 1)
    assert [step.kind for step in program.steps] == ["engine"]
    every = np.arange(256, dtype=np.uint8).view(given).reshape(1, 16, 16)
    with load(program, device=device) as session:
        found = session.run(every)
    limits = np.iinfo(made)
    exact = (every.astype(np.float64) - zeros[given]) * (0.5 / 0.375) + zeros[made] + 1
    wanted = np.clip(np.floor(exact + 0.5), limits.min, limits.max)
    # No third of an integer is a half, so no rule for halves is asked.
    np.testing.assert_array_equal(found, wanted.astype(made))
    assert found.dtype == made


def test_unsigned_bytes_after_a_table_cost_nothing():
    network = Network()
    made = network.unary(Op.LOGISTIC, network.convolution(0))
    graph = network.graph(network.unary(Op.QUANTIZE, made))
    tensors = dict(graph.tensors)
    (output,) = graph.outputs
    tensors[output] = replace(
        tensors[output],
        dtype="uint8",
        quantisation=Quantisation(scale=(1 / 256,), zero_point=(0,)),
    )
    found = posts(replace(graph, tensors=tensors))
    assert kinds(found)[Table.FILL] == 1
    assert kinds(found)[Table.NONE] == 0


def test_unsigned_bytes_without_tables_are_the_hosts():
    network = Network()
    made = network.unary(Op.QUANTIZE, network.convolution(0))
    graph = network.graph(made)
    tensors = {**graph.tensors, made: replace(graph.tensors[made], dtype="uint8")}
    program = compile_network(replace(graph, tensors=tensors), replace(CONFIG, tables=0))
    (reason,) = {layer.reason for layer in program.layers if layer.where == "host"}
    assert reason == "it needs a table, and the configuration has tables = 0"
