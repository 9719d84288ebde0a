"""The check of meaning accepts programs that compute their networks, and explains others."""

import dataclasses

import numpy as np
import pytest

from matloom import compiler, frontend
from matloom.arch.config import PRESETS, load_config
from matloom.arch.instruction import illegal_field, pack
from matloom.arch.isa import FORMATS, Opcode, Region
from matloom.compiler import CompileOptions
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.device.model import Engine, EngineFaultError
from matloom.ir.attributes import Activation, Arithmetic, Conv2D, Padding, Split
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.meaning import MeaningError, check_meaning, network
from matloom.program.instruction_table import unpack_all
from matloom.verification.random_layers import random_layer
from matloom.verification.random_operators import KINDS, RandomOperators
from support.mutant_cases import cases

EVERYTHING = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")
#: Operators of int16 on the engine.
WORDS = (
    *(Op.ADD, Op.AVERAGE_POOL_2D, Op.CONCATENATION, Op.CONV_2D, Op.DEPTHWISE_CONV_2D),
    *(Op.FULLY_CONNECTED, Op.LEAKY_RELU, Op.MAXIMUM, Op.MEAN, Op.MINIMUM, Op.PAD, Op.QUANTIZE),
    *(Op.RELU, Op.RELU6, Op.RESIZE_NEAREST_NEIGHBOR, Op.SLICE, Op.SPLIT, Op.SUM, Op.TRANSPOSE),
)


def compiled(graph, config, options=None):
    """Return (graph after the passes, program, names) of a network."""
    made = compiler.compile_unchecked(graph, load_config(config), options or CompileOptions())
    return made.prepared, made.program, {number: name for name, number in made.numbers.items()}


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_network_is_proven_as_a_whole(preset):
    proven, operators = check_meaning(*compiled(frontend.load(NETWORK), PRESETS[preset]))
    assert proven == operators == 7


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("preset", list(PRESETS))
def test_random_layers_with_random_tilings_are_proven(preset, seed):
    for number in range(seed, seed + 8):
        options = CompileOptions(tiling_seed=number if number % 4 else None)
        graph, _ = random_layer(number, PRESETS[preset])
        proven, operators = check_meaning(*compiled(graph, PRESETS[preset], options))
        assert proven == operators, f"layer {number}"


@pytest.mark.fast_cases(27)
@pytest.mark.parametrize(
    ("dtype", "op"),
    [
        *(("int8", op) for op in KINDS),
        *(("int16", op) for op in WORDS),
    ],
)
def test_every_operator_of_the_engine_is_proven(dtype, op, seed):
    graph = RandomOperators([seed, *op.encode()], dtype).make(op)
    for config in (EVERYTHING, load_config("nano+tables=0+products=1")):
        proven, operators = check_meaning(*compiled(graph, config))
        assert proven == operators


def _edited(program, buffer, number, name, value):
    """Return a program with one field of one instruction changed; None if illegal."""
    instructions = list(unpack_all(program.commands(buffer)))
    chosen = instructions[number]
    instructions[number] = dataclasses.replace(chosen, values={**chosen.values, name: value})
    if illegal_field(instructions[number], program.config):
        return None
    commands = b"".join(pack(item) for item in instructions)
    image = bytearray(program.image)
    image[buffer.command_offset : buffer.command_offset + len(commands)] = commands
    return dataclasses.replace(program, image=bytes(image))


def _outputs(program, inputs):
    """Return a one-step program's outputs on the functional model; None for a fault."""
    regions = {region: np.zeros(size, np.uint8) for region, size in program.region_bytes.items()}
    regions[Region.PROGRAM] = np.frombuffer(program.image, np.uint8)
    (step,) = program.steps
    for binding, data in zip(step.inputs, inputs, strict=True):
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        regions[binding.region][binding.offset : binding.offset + raw.size] = raw
    try:
        Engine(program.config, regions).run(program.commands(step))
    except EngineFaultError:
        return None
    (binding,) = step.outputs
    size = int(np.prod(binding.shape)) * np.dtype(binding.dtype).itemsize
    return regions[binding.region][binding.offset : binding.offset + size]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("layer", [3, 5, 7, 11])
def test_edits_of_instructions_that_change_a_result_are_noticed(layer):
    given, inputs = random_layer(layer, PRESETS["small"])
    arrays = [inputs[tensor] for tensor in given.inputs]
    graph, program, names = compiled(given, PRESETS["small"], CompileOptions(tiling_seed=layer))
    generator = np.random.default_rng(layer)
    (step,) = program.steps
    instructions = list(unpack_all(program.commands(step)))
    right, noticed = _outputs(program, arrays), 0
    for _ in range(120):
        number = int(generator.integers(len(instructions) - 1))
        fields = FORMATS[instructions[number].opcode].fields
        item = fields[generator.integers(len(fields))]
        value = instructions[number].values[item.name] + int(generator.choice([-1, 1, 16]))
        low, high = item.limits(PRESETS["small"])
        edited = _edited(program, step, number, item.name, min(max(low, value), high))
        if edited is None:
            continue
        found = _outputs(edited, arrays)
        if found is None or not np.array_equal(found, right):
            noticed += 1
            with pytest.raises(MeaningError):
                check_meaning(graph, edited, names)
    assert noticed >= 5


def test_a_wrong_weight_is_noticed():
    graph, program, names = compiled(product_graph(3, 20, 10), PRESETS["nano"])
    image = bytearray(program.image)
    image[0] ^= 1
    wrong = dataclasses.replace(program, image=bytes(image))
    with pytest.raises(MeaningError, match=r"in the first call, byte .* of output"):
        check_meaning(graph, wrong, names)


def test_a_repeated_call_relies_only_on_kept_bytes():
    options = CompileOptions(resident=True)
    graph, program, names = compiled(product_graph(3, 20, 10), PRESETS["nano"], options)
    assert check_meaning(graph, program, names) == (1, 1)
    (step,) = program.steps
    nothing = dataclasses.replace(step.repeat, kept=())
    wrong = dataclasses.replace(program, steps=(dataclasses.replace(step, repeat=nothing),))
    with pytest.raises(MeaningError, match=r"in a repeated call, .* must hold a weight"):
        check_meaning(graph, wrong, names)
    everything = dataclasses.replace(step.repeat, kept=((0, program.config.spad_bytes),))
    wrong = dataclasses.replace(program, steps=(dataclasses.replace(step, repeat=everything),))
    with pytest.raises(MeaningError, match=r"byte .* of the scratchpad must still hold a constant"):
        check_meaning(graph, wrong, names)


def test_an_instruction_beyond_its_memory_is_named():
    graph, program, names = compiled(product_graph(3, 20, 10), PRESETS["nano"])
    wrong = _edited(program, program.steps[0], 0, "spad_addr", 2**15 - 1)
    with pytest.raises(MeaningError, match=r"an extent must end by \d+, not \d+, by instruction 0"):
        check_meaning(graph, wrong, names)


def test_commands_without_an_end_are_no_program():
    graph, program, names = compiled(product_graph(3, 20, 10), PRESETS["nano"])
    (step,) = program.steps
    image = program.image[: step.command_offset + step.command_bytes - 16]
    shorter = dataclasses.replace(step, command_bytes=step.command_bytes - 16)
    wrong = dataclasses.replace(program, image=image, steps=(shorter,))
    with pytest.raises(MeaningError, match="an instruction must start inside the"):
        check_meaning(graph, wrong, names)


def test_the_message_names_instruction_and_layer():
    graph, program, names = compiled(frontend.load(NETWORK), PRESETS["small"])
    (step,) = [step for step in program.steps if step.kind == "engine"]
    instructions = list(unpack_all(program.commands(step)))
    number = next(
        at
        for at, item in enumerate(instructions)
        if item.opcode is Opcode.POST and item.channel_scale
    )
    wrong = _edited(program, step, number, "output_zero", instructions[number].output_zero + 1)
    layer = next(item.name for item in program.layers if item.timestamp)
    with pytest.raises(MeaningError) as error:
        check_meaning(graph, wrong, names)
    assert f"instruction {number} (POST) of layer {layer!r} is the first" in str(error.value)


def test_an_output_from_elsewhere_is_named():
    quantisation = Quantisation(scale=(0.5,), zero_point=(3,))
    tensors = {
        number: Tensor(name=name, shape=(1, 4, 4, 8), dtype="int8", quantisation=quantisation)
        for number, name in enumerate(("a", "b", "y"))
    }
    attributes = Arithmetic()
    node = Node(op=Op.ADD, inputs=(0, 1), outputs=(2,), attributes=attributes, index=0)
    given = Graph(name="sum", inputs=(0, 1), outputs=(2,), tensors=tensors, nodes=(node,))
    graph, program, names = compiled(given, PRESETS["small"])
    (step,) = program.steps
    instructions = list(unpack_all(program.commands(step)))
    stores = [at for at, item in enumerate(instructions) if item.opcode is Opcode.STORE]
    address = instructions[stores[0]].spad_addr
    wrong = _edited(program, step, stores[0], "spad_addr", address + 1)
    with pytest.raises(MeaningError, match="byte 0 of output 'y' holds byte 1 of 'y'"):
        check_meaning(graph, wrong, names)


def test_tables_in_a_row_are_proven_joined_and_apart():
    quantisation = Quantisation(scale=(1 / 256,), zero_point=(-128,))
    tensors = {
        number: Tensor(
            name=f"t{number}", shape=(1, 5, 5, 6), dtype="int8", quantisation=quantisation
        )
        for number in range(4)
    }
    nodes = tuple(
        Node(op=Op.LOGISTIC, inputs=(at,), outputs=(at + 1,), index=at) for at in range(3)
    )
    for outputs, tables in (((3,), 1), ((2, 3), 2), ((1, 2, 3), 3)):
        graph = Graph(name="three", inputs=(0,), outputs=outputs, tensors=tensors, nodes=nodes)
        assert check_meaning(*compiled(graph, EVERYTHING)) == (tables, tables)


@pytest.mark.parametrize(("field", "change"), [("oc_blocks", 1), ("tail", -1), ("width", -1)])
def test_a_table_filled_otherwise_is_noticed(field, change):
    (case,) = (case for case in cases() if case.name == "branches")
    graph, program, names = compiled(case.graph, case.config, case.options)
    (step,) = program.steps
    instructions = list(unpack_all(program.commands(step)))
    number = next(at for at, item in enumerate(instructions) if item.values.get("table") == 2)
    value = instructions[number].values[field] + change
    wrong = _edited(program, step, number, field, value)
    with pytest.raises(MeaningError):
        check_meaning(graph, wrong, names)


def test_operators_without_a_rule_are_not_counted_as_proven(monkeypatch):
    rules = {op: rule for op, rule in network._RULES.items() if op is not Op.FULLY_CONNECTED}
    monkeypatch.setattr(network, "_RULES", rules)
    assert check_meaning(*compiled(product_graph(3, 20, 10), PRESETS["nano"])) == (0, 1)


def constant_sum():
    """Return a layer, and the sum of half of its channels and a constant that outweighs them."""
    builder = GraphBuilder("sum")
    generator = np.random.default_rng(0)
    small, large = (Quantisation(scale=(scale,), zero_point=(-4,)) for scale in (5e-6, 4e-3))
    image = builder.input("image", (1, 8, 8, 80), "int8", small)
    weights = generator.integers(-127, 128, (160, 1, 1, 80), np.int8)
    filters = builder.constant(weights, Quantisation(scale=(3e-4,), zero_point=(0,)))
    around = Padding(top=0, bottom=0, left=0, right=0)
    layer = Conv2D(padding=around, activation=Activation.NONE)
    bias = builder.constant(np.zeros(160, np.int32))
    map_of_all = builder.add(Op.CONV_2D, [image, filters, bias], layer, quantisation=small)
    halves = [
        builder.tensor(Tensor(name=name, shape=(1, 8, 8, 80), dtype="int8", quantisation=small))
        for name in ("first", "second")
    ]
    builder.node(Op.SPLIT, [map_of_all], halves, Split(axis=3, sizes=(80, 80)))
    constant = builder.constant(np.array(127, np.int8), large)
    nothing = Arithmetic(activation=Activation.NONE)
    total = builder.add(Op.ADD, [halves[1], constant], nothing, quantisation=large)
    return builder.graph(total)


def test_a_constant_is_not_mistaken_for_a_table():
    """The sum is 127 everywhere, so its tables would hold the same bytes as the constant."""
    graph, program, names = compiled(constant_sum(), PRESETS["reference"])
    assert bytes([127]) * 4096 in program.image
    proven, operators = check_meaning(graph, program, names)
    assert proven == operators == 3
