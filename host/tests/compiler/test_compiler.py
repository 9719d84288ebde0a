"""Compiled networks on the functional model against the golden outputs and the interpreter."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.compiler import CompileOptions, compile_network, schedule_runs
from matloom.compiler.values import Compiled
from matloom.data.digits import NETWORK
from matloom.device.model import Engine
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.text import to_text
from matloom.kernels.interpreter import interpret
from matloom.kernels.step import HostSteps
from matloom.program import EngineStep, Program
from matloom.schedule import DoesNotFit, schedule_segment
from matloom.tools.compare import random_inputs
from matloom.verification.random_layers import random_layer
from matloom.verification.random_operators import KINDS, RandomOperators

DEFAULT_MODELS = Path(__file__).parents[4] / "shared" / "models"
MODELS = Path(os.environ.get("MATLOOM_MODELS", DEFAULT_MODELS))
NETWORKS = (
    "mlperf_tiny/ad01_int8",
    "mlperf_tiny/kws_ref_model",
    "mlperf_tiny/pretrainedResnet_quant",
    "mlperf_tiny/str_ww_ref_model",
    "mlperf_tiny/vww_96_int8",
    "siliconlabs/mltkzip_keyword_spotting_on_off",
    "siliconlabs/testhelper_image_example1",
    "tflm/hello_world_int8",
    "tflm/micro_speech_quantized",
    "tflm/person_detect",
    "tflm/simple_add_model",
    "tinyengine/ptq_mnist_lenet-300-100",
)


def _run(program, inputs):
    """Run a program on the functional model, with inputs in the network's order."""
    known = {info.name: array for info, array in zip(program.inputs, inputs, strict=True)}
    regions = {region: np.zeros(size, np.uint8) for region, size in program.region_bytes.items()}
    regions[Region.PROGRAM] = np.frombuffer(program.image, np.uint8)
    engine = Engine(program.config, regions)
    host = HostSteps(program)
    for step in program.steps:
        if not isinstance(step, EngineStep):
            known.update(host.run(step, known))
            continue
        for binding in step.inputs:
            data = np.ascontiguousarray(known[binding.name]).reshape(-1).view(np.uint8)
            regions[binding.region][binding.offset : binding.offset + data.size] = data
        engine.run(program.commands(step))
        for binding in step.outputs:
            size = int(np.prod(binding.shape)) * np.dtype(binding.dtype).itemsize
            data = regions[binding.region][binding.offset : binding.offset + size].copy()
            known[binding.name] = data.view(binding.dtype).reshape(binding.shape)
    return [known[info.name] for info in program.outputs]


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("config", ["reference", "small", "nano"])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_equal_the_golden_outputs(network, config):
    path = MODELS / "models" / f"{network}.tflite"
    if not path.is_file():
        pytest.skip(f"the model collection has no {path}")
    golden = np.load(MODELS / "golden" / f"{network.replace('/', '__')}.npz")
    program = compile_network(frontend.load(path), PRESETS[config])
    for sample in (0, -1):
        inputs = [golden[f"in{index}"][sample] for index in range(len(program.inputs))]
        (result,) = _run(program, inputs)
        expected = golden["out0_tflm"][sample]
        if result.dtype == np.float32:
            np.testing.assert_allclose(result.reshape(-1), expected.reshape(-1), atol=1e-5)
        else:
            np.testing.assert_array_equal(result.reshape(-1), expected.reshape(-1))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("config", list(PRESETS))
def test_random_layers_with_random_tilings_equal_the_interpreter(config, seed):
    for number in range(60):
        graph, inputs = random_layer(seed + number, PRESETS[config])
        options = CompileOptions(tiling_seed=seed + number if number % 4 else None)
        program = compile_network(graph, PRESETS[config], options)
        results = _run(program, [inputs[tensor] for tensor in graph.inputs])
        expected = interpret(graph, inputs)
        for tensor, result in zip(graph.outputs, results, strict=True):
            assert np.array_equal(result, expected[tensor]), f"layer {seed + number}"


#: Operators of integers alone, or from one number format to another.
NOT_FLOAT = (Op.BATCH_MATMUL, Op.QUANTIZE, Op.DEQUANTIZE)


@pytest.mark.fast_cases(22)
@pytest.mark.parametrize(
    ("dtype", "op"),
    [
        *(("int8", op) for op in KINDS),
        *(("float32", op) for op in KINDS if op not in NOT_FLOAT),
    ],
)
def test_single_operators_run_wherever_they_fit(dtype, op, seed):
    instances = RandomOperators([seed, *op.encode()], dtype)
    for _ in range(3):
        graph = instances.make(op)
        given = random_inputs(graph, seed)
        program = Program.from_bytes(compile_network(graph, PRESETS["small"]).to_bytes())
        results = _run(program, [given[number] for number in graph.inputs])
        expected = interpret(graph, given)
        for number, result in zip(graph.outputs, results, strict=True):
            assert np.array_equal(result, expected[number]), to_text(graph)


def test_constants_are_added_on_the_engine(seed):
    quantisation = Quantisation(scale=(0.5,), zero_point=(3,))
    numbers = np.random.default_rng(seed)
    data = numbers.integers(-128, 128, (1, 1, 5)).astype(np.int8)
    tensors = {
        number: Tensor(
            name=f"t{number}",
            shape=(1, 5) if constant else (2, 7, 5),
            dtype="int8",
            quantisation=quantisation,
            data=data[0] if constant else None,
        )
        for number, constant in enumerate((False, True, False))
    }
    node = Node(
        op=Op.ADD,
        inputs=(0, 1),
        outputs=(2,),
        attributes=Arithmetic(),
        index=0,
    )
    graph = Graph(name="add", inputs=(0,), outputs=(2,), tensors=tensors, nodes=(node,))
    given = numbers.integers(-128, 128, (2, 7, 5)).astype(np.int8)
    (result,) = _run(compile_network(graph, PRESETS["small"]), [given])
    assert np.array_equal(result, interpret(graph, {0: given})[2])


def test_layers_that_cannot_fit_run_on_the_host(monkeypatch):
    def schedule(segment, *rest, **more):
        if any(stage.name == "CONV_2D_1" for stage in segment.stages):
            return DoesNotFit(reason="CONV_2D_1 needs more than there is")
        return schedule_segment(segment, *rest, **more)

    monkeypatch.setattr(schedule_runs, "schedule_segment", schedule)
    graph = frontend.load(NETWORK)
    program = compile_network(graph, PRESETS["small"])
    (layer,) = (layer for layer in program.layers if layer.where == "host" and layer.macs)
    assert layer.reason == "CONV_2D_1 needs more than there is"
    assert layer.macs == 8 * 8 * 16 * 16 * 9
    (weights, _bias) = program.constants
    assert len(weights.scales) == 16
    assert len(program.host_data) == 16 * 16 * 9 + 4 * 16
    given = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1), np.int8)
    (result,) = _run(Program.from_bytes(program.to_bytes()), [given])
    assert np.array_equal(result, interpret(graph, {0: given})[graph.outputs[0]])


def test_large_segments_run_stage_by_stage(monkeypatch):
    plain = []

    def schedule(segment, options, **more):
        plain.append(options.plain)
        if len(segment.stages) > 1 and not options.plain:
            return DoesNotFit(reason="the stages need more than there is")
        return schedule_segment(segment, options, **more)

    monkeypatch.setattr(schedule_runs, "schedule_segment", schedule)
    graph = frontend.load(NETWORK)
    program = compile_network(graph, PRESETS["small"], CompileOptions(tiling_seed=1))
    assert (plain[0], plain[-1]) == (False, True)
    on_engine = [layer for layer in program.layers if layer.where == "engine"]
    assert sum(layer.macs for layer in on_engine) == program.macs
    given = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1), np.int8)
    (result,) = _run(program, [given])
    assert np.array_equal(result, interpret(graph, {0: given})[graph.outputs[0]])


def test_layers_show_where_they_run():
    path = MODELS / "models" / "mlperf_tiny" / "pretrainedResnet_quant.tflite"
    if not path.is_file():
        pytest.skip(f"the model collection has no {path}")
    program = compile_network(frontend.load(path), PRESETS["reference"])
    assert program.macs == 12_501_632
    assert program.predicted_cycles < 52_500
    places = {layer.operator: layer.where for layer in program.layers}
    assert places["CONV_2D"] == places["ADD"] == places["AVERAGE_POOL_2D"] == "engine"
    assert places["SOFTMAX"] == "host"
    softmax = next(layer for layer in program.layers if layer.where == "host")
    assert softmax.reason == "it needs softmax = 1, and the configuration has softmax = 0"
    # The POSTs of an ADD make the results of the convolution before it, too.
    operators = [layer.operator for layer in program.layers if layer.where == "engine"]
    slots = itertools.count(1)
    expected = [
        0 if (operator, after) == ("CONV_2D", "ADD") else next(slots)
        for operator, after in itertools.pairwise([*operators, ""])
    ]
    assert expected.count(0) == 3
    assert [layer.timestamp for layer in program.layers if layer.where == "engine"] == expected


#: Prints a digest of programs some of whose tensors, of one size, lie in external memory.
DIGEST = """
import hashlib
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom import frontend
graph, digest = frontend.load(NETWORK), hashlib.sha256()
for number in range(12):
    program = compile_network(graph, "small", CompileOptions(tiling_seed=number))
    digest.update(program.to_bytes())
print(digest.hexdigest())
"""


def test_equal_networks_give_equal_programs():
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_checks_leave_other_cores_alone(monkeypatch):
    """Linear algebra must use one thread; idle threads would spin during the checks."""
    seen = []
    check = Compiled.check

    def watched(self, mode):
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return check(self, mode)

    monkeypatch.setattr(Compiled, "check", watched)
    with threadpool_limits(limits=2):
        compile_network(frontend.load(NETWORK), "nano", check="sample")
    assert seen
    assert set(seen) == {1}


def test_a_library_in_a_folder_that_is_not_unicode(monkeypatch):
    def unreadable(**_limits):
        b"\xff".decode()

    monkeypatch.setattr("matloom.compiler.checked_programs.threadpool_limits", unreadable)
    assert compile_network(frontend.load(NETWORK), "nano", check="none").steps
