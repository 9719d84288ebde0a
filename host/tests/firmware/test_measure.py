"""Networks in stand-alone firmware: outputs bit for bit, and cycles."""

import subprocess

import numpy as np
import pytest

import firmware
import matloom
from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.kernels.interpreter import interpret
from matloom.tools.emit_c import write_c

MEASURE = firmware.FIRMWARE / "examples" / "measure"


def measured(board, folder, program, inputs):
    """Return the application's report for each input: output and cycles."""
    write_c(program, folder / "net.c")
    names = [f"net_{side[0].name.lower()}" for side in (program.inputs, program.outputs)]
    words = {"HEADER": '"net.h"', "NETWORK": "net", "INPUT": names[0], "OUTPUT": names[1]}
    flags = [f"-D{word}={value}" for word, value in words.items()]
    kernels = ("kernels/conversion.c", "kernels/softmax.c")
    sources = ("examples/measure/main.c", "tests/system.c", *kernels, folder / "net.c")
    command = [
        board(f"measure_{folder.name}", *sources, flags=[*flags, f"-I{folder}", f"-I{MEASURE}"])
    ]
    done = subprocess.run(command, input=inputs.tobytes(), capture_output=True, check=True)
    ready, *lines = done.stdout.decode().splitlines()
    assert ready == "ready"
    assert len(lines) == 3 * len(inputs)
    for output, engine, processor in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        yield (
            bytes.fromhex(output),
            int(engine.removeprefix("engine ")),
            int(processor.removeprefix("processor ")),
        )


def check(board, folder, path, count):
    """Compare a network with the reference kernels, and its cycles with device="rtl"."""
    graph = frontend.load(path)
    program = compile_network(graph, PRESETS["nano"], check="none")
    shape = graph.tensors[graph.inputs[0]].shape
    inputs = np.random.default_rng(6).integers(-128, 128, (count, *shape), np.int8)
    with matloom.load(program, device="rtl") as session:
        for image, found in zip(inputs, measured(board, folder, program, inputs), strict=True):
            wanted = interpret(graph, {graph.inputs[0]: image})[graph.outputs[0]]
            assert found[0] == wanted.tobytes()
            session.run(image)
            assert found[1] == session.report().cycles
            # Registers, and no more: nothing waits for the processor of the tests.
            assert 0 < found[2] < 5000


def test_digits(board, tmp_path):
    """The second run finds its weights in the scratchpad, and is shorter."""
    check(board, tmp_path, NETWORK, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kws_ref_model", "pretrainedResnet_quant"])
def test_collection(name, board, tmp_path, models):
    (path,) = models.rglob(f"{name}.tflite")
    check(board, tmp_path, path, 1)
