"""The chip with its host link, simulated as a whole, used like any other device."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceError
from matloom.device.linked import LinkedChip
from matloom.device.open import open_device
from matloom.runtime import load

# Of the link itself `test_link_gateware.py` has the fast tests, of a whole chip with it
# `test_simulated_board.py`.
pytestmark = pytest.mark.slow

#: The least engine there is, for the sake of the time in which its simulator is built.
LEAST = load_config("nano+windows=0+maximum=0")


@pytest.fixture(scope="module")
def chip():
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    with LinkedChip(LEAST, optimise=False) as running:
        yield running


def _same(first, second):
    return first.keys() == second.keys() and all(
        (first[name] == second[name]).all() for name in first
    )


def test_a_network_runs(chip, small_product, small_inputs):
    with load(small_product, device="model", config=LEAST) as session:
        expected = session.run(small_inputs)
    with load(small_product, device=chip.device, config=LEAST) as session:
        assert _same(session.run(small_inputs), expected)
        cycles = session.report().cycles
        assert session.driver.transport.hello.board == "simulation"
    with load(small_product, device=chip.device, config=LEAST) as session:
        assert _same(session.run(small_inputs), expected)
        # The link is not among what a run costs.
        assert session.report().cycles == cycles


def test_memory_and_registers(chip):
    driver = open_device(chip.device, LEAST)
    transport = driver.transport
    data = np.random.default_rng(2).integers(0, 256, 5001, np.uint8).tobytes()
    transport.write_block(transport.memory_base + 3, data)
    assert transport.read_block(transport.memory_base + 3, len(data)) == data
    with pytest.raises(DeviceError, match="failed with BUS_ERROR"):
        transport.read32(0x7FC)
    driver.close()


def test_another_configuration_is_refused(chip):
    with pytest.raises(DeviceError, match="the bitstream of board simulation is of configuration"):
        open_device(chip.device, "reference")


def test_digits_by_the_command_line(tmp_path):
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    images = np.random.default_rng(3).integers(-128, 128, (4, 8, 8, 1), np.int8)
    np.savez(tmp_path / "in.npz", image=images)
    program = str(Path(sys.executable).with_name("matloom"))

    def run(device):
        target = tmp_path / "out.npz"
        words = [program, "run", str(NETWORK), "--config", "nano", "--device", device]
        words += ["--input", str(tmp_path / "in.npz"), "--output", str(target)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with np.load(target) as arrays:
            return dict(arrays), done.stdout.split()[0]

    with LinkedChip(load_config("nano")) as running:
        outputs, cycles = run(running.device)
    expected, simulated = run("rtl")
    assert _same(outputs, expected)
    assert cycles == simulated


def test_keyword_spotting(models):
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    network = next(models.rglob("kws_ref_model.tflite"))
    outputs = {}
    with LinkedChip(load_config("nano")) as running:
        for device in (running.device, "model"):
            with load(network, device=device, config="nano") as session:
                info = session.program.inputs[0]
                values = np.random.default_rng(4).integers(-128, 128, info.shape)
                outputs[device] = session.run({info.name: values.astype(info.dtype)})
    assert _same(*outputs.values())
