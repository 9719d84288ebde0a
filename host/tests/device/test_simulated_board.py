"""A board simulated whole, from its oscillator and line: the memory inside, and networks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matloom.device.open import open_device
from matloom.device.simulated_board import SimulatedBoard
from matloom.runtime import load

BOARD = "ulx3s-85f"

#: The least engine there is, for the sake of the time in which its simulator is built.
LEAST = "nano+windows=0+maximum=0"


@pytest.fixture(scope="module")
def board():
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    with SimulatedBoard(BOARD, LEAST, optimise=False) as running:
        yield running


def test_the_hello_and_the_whole_memory(board):
    driver = open_device(board.device, LEAST)
    transport = driver.transport
    hello = transport.hello
    assert (hello.board, hello.clock_hz, hello.memory_bytes) == (BOARD, 62_500_000, 262_144)
    data = np.random.default_rng(2).integers(0, 256, 5001, np.uint8).tobytes()
    # Over the ends of two banks, and to the last byte.
    for start in (65_536 - 1000, 262_144 - 5001):
        transport.write_block(transport.memory_base + start, data)
        assert transport.read_block(transport.memory_base + start, len(data)) == data
    driver.close()


def test_a_network_runs(board, small_product, small_inputs):
    with load(small_product, device="model", config=LEAST) as session:
        expected = session.run(small_inputs)
    with load(small_product, device=board.device, config=LEAST) as session:
        outputs = session.run(small_inputs)
    assert outputs.keys() == expected.keys()
    assert all((outputs[name] == expected[name]).all() for name in expected)


def test_no_such_board():
    with pytest.raises(ValueError, match=r"a board must be one of .*ulx3s-85f.*, not 'ulx4m'"):
        SimulatedBoard("ulx4m")


@pytest.mark.slow
def test_keyword_spotting_by_the_command_line(models, tmp_path):
    """`matloom run` on the board with its own engine, beside the functional model."""
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    network = next(models.rglob("kws_ref_model.tflite"))
    program = str(Path(sys.executable).with_name("matloom"))
    with load(network, device="model", config="nano") as session:
        info = session.program.inputs[0]
        values = np.random.default_rng(4).integers(-128, 128, info.shape).astype(info.dtype)
        expected = session.run({info.name: values})
    np.savez(tmp_path / "in.npz", **{info.name: values})
    with SimulatedBoard(BOARD) as running:
        words = [program, "run", str(network), "--config", "nano", "--device", running.device]
        words += ["--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
        done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as arrays:
        outputs = dict(arrays)
    assert outputs.keys() == expected.keys()
    assert all((outputs[name] == expected[name]).all() for name in expected)
