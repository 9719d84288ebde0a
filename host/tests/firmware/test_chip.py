"""The driver on the chip's Verilog: compiled for this machine, with the simulation of `nano`."""

import subprocess

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.data.digits import NETWORK
from matloom.kernels.interpreter import interpret
from matloom.program import Program


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("how", ["copy", "place"])
def test_digits(board, engine_files, how):
    """Logits equal the reference kernels', and cycles the Python driver's."""
    graph = frontend.load(NETWORK)
    images = np.random.default_rng(1).integers(-128, 128, (3, 8, 8, 1), np.int8)
    logits = next(n for n, tensor in graph.tensors.items() if tensor.name == "logits")
    wanted = [
        interpret(graph, {graph.inputs[0]: image[np.newaxis]}, keep=True)[logits]
        for image in images
    ]

    command = [board("test_chip", "tests/test_chip.c"), engine_files[0], how]
    done = subprocess.run(command, input=images.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = np.frombuffer(done.stdout, np.int8).reshape(3, 10)
    assert np.array_equal(found, np.concatenate(wanted))

    if how == "copy":
        with matloom.load(Program.load(engine_files[0]), device="rtl") as session:
            session.run(images[-1:])
            assert int(done.stderr) == session.report().cycles
