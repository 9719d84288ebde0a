"""float32 sums, limits and roundings on the engine, compared with NumPy and ml_dtypes."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.arch.isa import Destination, Opcode, Source
from matloom.arch.modes import FLOAT_MODES
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import Activation, Arithmetic, Attributes, Conv2D, Pool2D
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.program import EngineStep
from matloom.program.instruction_table import unpack_all

DTYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16}
#: As the chip of floating point in host/tests/device, so that one simulator serves both.
CONFIG = dataclasses.replace(
    PRESETS["nano"], weight_rows=2, float_rows=2, mac_modes=("i8xi8", "i16xi8", *FLOAT_MODES)
)
LIMITS = {
    Activation.NONE: (-np.inf, np.inf),
    Activation.RELU: (0, np.inf),
    Activation.RELU6: (0, 6),
    Activation.RELU_N1_TO_1: (-1, 1),
}
SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF808000]
SPECIAL += [0x477FF000, 0x477FEFFF, 0x33000000, 0x33000001, 0x7F7FFFFF, 0xFF7F8000]
SPECIAL += [0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001, 0x40C00000, 0x40C00001]


class Net:
    """A sum, optionally limited, and a 1x1 convolution with identity weights.

    Numbers of tensors: `a` 0, `b` 1, the sum 2, its limit 3, the convolution's output 4.
    """

    def __init__(self, shapes, activation=Activation.NONE, *, limit=None, shown=False, constant=()):
        self.shapes, self.activation, self.limit = shapes, activation, limit
        self.shape = np.broadcast_shapes(*shapes)
        self.shown, self.constant = shown, dict(constant)

    def graph(self):
        depth = self.shape[3]
        identity = np.eye(depth, dtype=np.float32).reshape(depth, 1, 1, depth)
        sizes = dict(enumerate((*self.shapes, *[self.shape] * 3)))
        names = ("a", "b", "sum", "limited", "y")
        tensors = {
            number: Tensor(
                name=names[number],
                shape=shape,
                dtype="float32",
                data=self.constant.get(number),
            )
            for number, shape in sizes.items()
        }
        tensors[5] = Tensor(name="eye", shape=identity.shape, dtype="float32", data=identity)
        layer = Conv2D()
        made = Arithmetic(activation=self.activation)
        nodes = [Node(op=Op.ADD, inputs=(0, 1), outputs=(2,), attributes=made, index=0)]
        if self.limit is not None:
            nodes.append(Node(op=self.limit, inputs=(2,), outputs=(3,), index=1))
        else:
            del tensors[3]
        given = nodes[-1].output
        nodes.append(
            Node(op=Op.CONV_2D, inputs=(given, 5), outputs=(4,), attributes=layer, index=2)
        )
        shown = [node.output for node in nodes[:-1]] if self.shown else []
        return Graph(
            name="net",
            inputs=tuple(number for number in (0, 1) if number not in self.constant),
            outputs=(*shown, 4),
            tensors=tensors,
            nodes=tuple(nodes),
        )

    def wanted(self, a, b, dtype):
        """Return the expected outputs, by name."""
        with np.errstate(all="ignore"):
            total = np.clip(a + b, *np.float32(LIMITS[self.activation]))
            found = {"sum": total} if self.shown else {}
            if self.limit is not None:
                total = np.clip(total, *np.float32(LIMITS[Activation(self.limit)]))
                found |= {"limited": total} if self.shown else {}
            return found | {"y": total.astype(dtype).astype(np.float32)}


def check(net, arrays, mode, *, device="model", seed=None, config=CONFIG):
    """Run a network; return program and session. Here -0 equals +0, and all NaNs are equal."""
    options = CompileOptions(tiling_seed=seed, resident=False)
    program = compile_network(net.graph(), config, options, precision=mode)
    session = matloom.load(program, device=device)
    given = [name for number, name in enumerate("ab") if number not in net.constant]
    found = session.run({name: arrays[name] for name in given})
    for name, numbers in net.wanted(arrays["a"], arrays["b"], DTYPES[mode]).items():
        assert np.array_equal(found[name], numbers, equal_nan=True), f"{name}, seed {seed}"
    return program, session


def random_net(number):
    """Return a network with random shapes and operators, and its inputs."""
    rng = np.random.default_rng(number)
    shape = tuple(int(size) for size in rng.integers(1, (3, 9, 9, 12)))
    other = shape[rng.integers(4) :] if number % 3 == 0 else shape
    shapes = (shape, other) if rng.random() < 0.5 else (other, shape)
    if len(shapes[0]) < 4 and len(shapes[1]) < 4:
        shapes = (shape, shape)
    arrays = {
        name: (rng.standard_normal(size) * 2.0 ** rng.integers(-20, 12)).astype(np.float32)
        for name, size in zip("ab", shapes, strict=True)
    }
    return Net(
        shapes,
        rng.choice(list(LIMITS)),
        limit=[None, Op.RELU, Op.RELU6][rng.integers(3)],
        shown=bool(rng.random() < 0.5),
        constant={1: arrays["b"]} if number % 4 == 1 else {},
    ), arrays


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("mode", DTYPES)
def test_random(mode, seed):
    for number in range(seed, seed + 24):
        net, arrays = random_net(number)
        program, _ = check(net, arrays, mode, seed=number if number % 2 else None)
        where = {layer.operator: layer.where for layer in program.layers}
        assert ("QUANTIZE" in where) == net.shown
        # Between a sum and a layer a limit of float32 keeps them apart.
        apart = net.shown and net.limit is not None
        assert where.pop("ADD") == ("host" if apart else "engine"), f"seed {number}"
        assert set(where.values()) == {"engine"}, f"seed {number}: {where}"


@pytest.mark.parametrize("mode", DTYPES)
@pytest.mark.parametrize("activation", LIMITS)
def test_special_numbers(mode, activation):
    """Each pair in a row of its own: infinity times the zero padding of a vector is NaN."""
    numbers = np.array(SPECIAL, np.uint32).view(np.float32)
    a, b = (each.reshape(1, -1, 1, 1) for each in np.meshgrid(numbers, numbers))
    for shown in (False, True):
        check(Net((a.shape, b.shape), activation, shown=shown), {"a": a, "b": b}, mode)


def test_signs_of_zero_and_patterns_of_nan():
    """Limits at zero turn -0 into +0, sums keep -0; every NaN becomes 0x7FC00000."""
    a = np.array([0x80000000, 0xFFC01234], np.uint32).view(np.float32).reshape(1, 1, 2, 1)
    patterns = {}
    for activation in (Activation.NONE, Activation.RELU):
        net = Net((a.shape, a.shape), activation, shown=True)
        found = matloom.load(net.graph(), device="model", config=CONFIG, precision="bf16").run(
            {"a": a, "b": a}
        )
        patterns[activation] = found["sum"].view(np.uint32).reshape(-1).tolist()
    assert patterns[Activation.NONE] == [0x80000000, 0x7FC00000]
    assert patterns[Activation.RELU] == [0, 0x7FC00000]


@pytest.mark.parametrize("limit", [None, Op.RELU6])
@pytest.mark.parametrize("shown", [False, True])
def test_larger_than_the_scratchpad(limit, shown):
    config = dataclasses.replace(CONFIG, spad_bytes=8192)
    shape = (1, 20, 18, 6)
    rng = np.random.default_rng(1)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name in "ab"}
    assert arrays["a"].nbytes > config.spad_bytes
    net = Net((shape, shape), Activation.RELU, limit=limit, shown=shown)
    program, _ = check(net, arrays, "fp16", config=config)
    assert program.layers[-1].where == "engine"


@pytest.mark.parametrize("shown", [False, True])
def test_results_in_the_place_of_an_input(shown):
    """Results of two bytes replace the first half of the input."""
    shape = (1, 18, 18, 9)
    rng = np.random.default_rng(2)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name in "ab"}
    program, _ = check(Net((shape, shape), shown=shown), arrays, "bf16")
    (step,) = (step for step in program.steps if isinstance(step, EngineStep))
    posts = [
        item.values for item in unpack_all(program.commands(step)) if item.opcode is Opcode.POST
    ]
    read = {post["source_addr"] for post in posts if post["source"] == Source.SPAD}
    written = {post["dest_addr"] for post in posts if post["destination"] == Destination.SPAD}
    assert read & written


def test_a_sum_that_the_engine_lacks_is_rounded_on_the_host():
    shapes = (1, 5, 1, 3), (1, 1, 4, 3)
    rng = np.random.default_rng(3)
    arrays = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in zip("ab", shapes, strict=True)
    }
    for mode in DTYPES:
        for limit in (None, Op.RELU):
            program, _ = check(Net(shapes, limit=limit), arrays, mode)
            layers = {layer.operator: layer for layer in program.layers}
            assert layers["ADD"].where == "host"
            assert "broadcasts" in layers["ADD"].reason
            assert layers["CONV_2D"].where == "engine"


def test_isolated_operators_stay_on_the_host():
    """The engine would gain nothing from moving it there and back."""
    shape = (1, 4, 4, 3)
    graph = Net((shape, shape), limit=Op.RELU).graph()
    pool = Pool2D(window=(1, 1))
    tensors = {**graph.tensors, 6: dataclasses.replace(graph.tensors[4], name="pooled")}
    add, relu, layer = graph.nodes
    pooling = Node(op=Op.MAX_POOL_2D, inputs=(3,), outputs=(6,), attributes=pool, index=3)
    nodes = (add, relu, pooling, dataclasses.replace(layer, inputs=(6, 5)))
    graph = dataclasses.replace(graph, tensors=tensors, nodes=nodes)
    program = matloom.compile(graph, CONFIG, precision="bf16")
    layers = {layer.operator: layer for layer in program.layers}
    assert [layers[name].where for name in ("QUANTIZE", "CONV_2D")] == ["engine", "engine"]
    for name in ("ADD", "RELU"):
        assert layers[name].where == "host"
        assert layers[name].reason.endswith("of float32 only next to layers in bf16 or fp16")
    plain = matloom.compile(Net((shape, shape)).graph(), CONFIG)
    assert {layer.where for layer in plain.layers} == {"host"}


def test_other_roundings_stay_on_the_host():
    """A QUANTIZE to int8 starts an integer network."""
    given = Tensor(name="x", shape=(1, 4), dtype="float32")
    made = Tensor(name="y", shape=(1, 4), dtype="float16")
    graph = Graph(
        name="net",
        inputs=(0,),
        outputs=(1,),
        tensors={0: given, 1: made},
        nodes=(Node(op=Op.QUANTIZE, inputs=(0,), outputs=(1,), attributes=Attributes(), index=0),),
    )
    for config, reason in ((CONFIG, "only next to"), (PRESETS["nano"], "no QUANTIZE of float32")):
        (layer,) = matloom.compile(graph, config).layers
        assert layer.where == "host"
        assert reason in layer.reason


@pytest.mark.slow
@pytest.mark.parametrize("mode", DTYPES)
def test_chip(mode):
    """The chip's results equal the model's, and its cycles are within 5 % of the prediction."""
    for number in range(8):
        net, arrays = random_net(number)
        check(net, arrays, mode, device="rtl", seed=number if number % 2 else None)
    shape = (1, 23, 20, 7)
    rng = np.random.default_rng(4)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name in "ab"}
    for shown in (False, True):
        net = Net((shape, shape), Activation.RELU, limit=Op.RELU6, shown=shown)
        program, session = check(net, arrays, mode, device="rtl")
        assert program.predicted_cycles == pytest.approx(session.report().cycles, rel=0.05)
