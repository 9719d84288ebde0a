"""A whole simulated board, from oscillator and line: its memory check, and networks."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.arch.memory import MEMORIES
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceError
from matloom.device.open import open_device
from matloom.device.serial_port import SerialStream, parse_address
from matloom.device.simulated_board import SimulatedBoard
from matloom.runtime import load
from matloom_rtl.board.definition import BOARD_FOLDER, load_board

BOARD = "ulx3s-85f"

PROGRAM = str(Path(sys.executable).with_name("matloom"))

#: Its SDRAM.
BYTES = 32 << 20

#: The boards that open tools route.
ROUTED = (BOARD, "ulx3s-25f", "colorlight-5a75b", "orangecrab-85f", "tang-nano-20k")

#: The least engine there is, for the sake of the time in which its simulator is built.
LEAST = "nano+windows=0+maximum=0"


@pytest.fixture(scope="module")
def board():
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    with SimulatedBoard(BOARD, LEAST, optimise=False) as running:
        yield running


@pytest.mark.slow
def test_the_hello_and_the_whole_memory(board):
    driver = open_device(board.device, LEAST)
    transport = driver.transport
    hello = transport.hello
    assert (hello.board, hello.clock_hz, hello.memory_bytes) == (BOARD, 70_833_333, BYTES)
    data = np.random.default_rng(2).integers(0, 256, 5001, np.uint8).tobytes()
    # Over the ends of rows in all banks, at odd addresses, and to the last byte.
    for start in (65_536 - 1001, BYTES - 5001):
        transport.write_block(transport.memory_base + start, data)
        assert transport.read_block(transport.memory_base + start, len(data)) == data
    driver.close()


@pytest.mark.slow
def test_its_memory_is_right(board):
    """On the command line: a correct SDRAM returns all that was written."""
    done = subprocess.run(
        [PROGRAM, "check-board", board.device, "--bytes", "65536"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"board: {BOARD}, 70.8333 MHz"
    assert "memory: 65536 bytes written and read twice, right" in done.stdout


@pytest.mark.slow
def test_a_network_runs(board, small_product, small_inputs):
    with load(small_product, device="model", config=LEAST) as session:
        expected = session.run(small_inputs)
    with load(small_product, device=board.device, config=LEAST) as session:
        assert session.program.memory is MEMORIES["ulx3s-sdram-64"]
        outputs = session.run(small_inputs)
    assert outputs.keys() == expected.keys()
    assert all((outputs[name] == expected[name]).all() for name in expected)


@pytest.mark.slow
def test_a_broken_rule_ends_the_simulation(board):
    """An SDRAM with stricter rules than its part: a message names the rule, and the line closes."""
    del board  # Its simulator is built.
    running = SimulatedBoard(BOARD, LEAST, optimise=False, sdram={"rcd": 5})
    transport = open_device(running.device, LEAST).transport
    rows = b"".join(bytes([row]) * 1024 for row in range(16))
    with pytest.raises(DeviceError, match="went away while it was used"):
        transport.write_block(transport.memory_base, rows)
    assert running.stopped.is_set()
    with pytest.raises(DeviceError, match=rf"SDRAM of {BOARD} must .*, and tRCD was broken in"):
        running.close()


@pytest.mark.slow
def test_block_ram(tmp_path):
    """The same board with memory in the FPGA, across the end of a bank."""
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    path = tmp_path / "block.toml"
    text = (BOARD_FOLDER / f"{BOARD}.toml").read_text()
    memory = '[memory]\nkind = "block"\nbytes = 131_072\n\n[pins]'
    path.write_text(re.sub(r"\[memory\].*\[pins\]", memory, text, flags=re.DOTALL))
    with SimulatedBoard(str(path), LEAST, optimise=False) as running:
        transport = open_device(running.device, LEAST).transport
        assert transport.hello.memory_bytes == 131_072
        data = bytes(range(256))
        transport.write_block(transport.memory_base + 65_536 - 100, data)
        assert transport.read_block(transport.memory_base + 65_536 - 100, 256) == data


def test_no_such_board():
    with pytest.raises(ValueError, match=r"a board must be one of .*ulx3s-85f.*, not 'ulx4m'"):
        SimulatedBoard("ulx4m")


def counted_engine(board):
    """Return the board's engine, with a cycle counter added if it has none."""
    engine = load_board(board).config
    return engine if load_config(engine).counters else f"{engine}+counters=1"


@pytest.mark.slow
@pytest.mark.parametrize("board", [BOARD, "tang-nano-20k", "colorlight-5a75b"])
def test_keyword_spotting_by_the_command_line(board, models, tmp_path):
    """Run `matloom run` on a board with its own engine; compare with the functional model.

    Cycles are within 5 % of those predicted for its memory.
    """
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    config = counted_engine(board)
    network = next(models.rglob("kws_ref_model.tflite"))
    program = str(Path(sys.executable).with_name("matloom"))
    with load(network, device="model", config=config) as session:
        info = session.program.inputs[0]
        values = np.random.default_rng(4).integers(-128, 128, info.shape).astype(info.dtype)
        expected = session.run({info.name: values})
    np.savez(tmp_path / "in.npz", **{info.name: values})
    with SimulatedBoard(board, config) as running:
        words = [program, "run", str(network), "--config", config, "--device", running.device]
        words += ["--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
        done = subprocess.run(words, capture_output=True, text=True)
        with load(network, device=running.device, config=config) as session:
            session.run({info.name: values})
            report = session.report()
    assert done.returncode == 0, done.stderr
    assert report.cycles_source == "counters"
    assert report.cycles == pytest.approx(report.predicted_cycles, rel=0.05)
    with np.load(tmp_path / "out.npz") as arrays:
        outputs = dict(arrays)
    assert outputs.keys() == expected.keys()
    assert all((outputs[name] == expected[name]).all() for name in expected)


#: Networks of a collection; what TensorFlow Lite Micro made of real inputs is recorded there, too.
#: The last one takes `pooling`, where a board has it.
GOLDEN = {
    "ic": ("models", "mlperf_tiny/pretrainedResnet_quant"),
    "kws": ("models", "mlperf_tiny/kws_ref_model"),
    "pacman": ("wild", "siliconlabs/keyword_spotting_pacman"),
}


@pytest.mark.slow
@pytest.mark.parametrize("board", ROUTED)
@pytest.mark.parametrize("network", GOLDEN)
def test_golden_outputs_over_the_line(board, network, request):
    """Every recorded input gives equal bytes; cycles of later calls match the prediction."""
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    collection, name = GOLDEN[network]
    folder = request.getfixturevalue(collection)
    with np.load(folder / "golden" / f"{name.replace('/', '__')}.npz") as golden:
        inputs = golden["in0"]
        expected = [golden[key] for key in golden if key.endswith("_tflm")]
    assert len(inputs) > 1
    config = counted_engine(board)
    path = folder / "models" / f"{name}.tflite"
    with (
        SimulatedBoard(board, config) as running,
        load(path, device=running.device, config=config) as session,
    ):
        (info,), outputs = session.program.inputs, session.program.outputs
        for given, *wanted in zip(inputs, *expected, strict=True):
            found = session.run({info.name: given.reshape(info.shape)})
            for output, array in zip(outputs, wanted, strict=True):
                made = found[output.name]
                assert (made.dtype, made.tobytes()) == (array.dtype, array.tobytes())
            report = session.report()
            print(board, network, report.cycles, report.predicted_cycles)
            assert report.cycles_source == "counters"
            assert report.cycles == pytest.approx(report.predicted_cycles, rel=0.05)


@pytest.fixture
def system():
    """Return the board with a processor that waits in its boot ROM."""
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    pytest.importorskip("pythondata_cpu_vexriscv", reason="needs a processor: extra soc")
    pytest.importorskip("ziglang", reason="needs a compiler: extra firmware")
    with SimulatedBoard(BOARD, LEAST, cpu="default") as running:
        yield running


def boot(device, *words):
    done = subprocess.run(
        [PROGRAM, "boot", "--timeout", "300", device, *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" bytes started, sent 1 times\n")


@pytest.mark.slow
def test_a_network_runs_on_a_system_that_was_booted(system, small_product, small_inputs):
    with load(small_product, device="model", config=LEAST) as session:
        expected = session.run(small_inputs)
    boot(system.device)
    with load(small_product, device=system.device, config=LEAST) as session:
        outputs = session.run(small_inputs)
    assert outputs.keys() == expected.keys()
    assert all((outputs[name] == expected[name]).all() for name in expected)


@pytest.mark.slow
def test_a_stand_alone_system(system, tmp_path):
    image = tmp_path / "digits.bin"
    words = ("compile", NETWORK, "--config", LEAST, "--emit", "soc", "-o", image)
    subprocess.run([PROGRAM, *words], check=True)
    boot(system.device, image)
    stream = SerialStream(*parse_address(system.device))
    picture = np.random.default_rng(5).integers(-128, 128, (1, 8, 8, 1), np.int8)
    try:
        # What it said at first came while the port was closed or open: only the answer is certain.
        stream.write(picture.tobytes())
        said = b""
        while said.count(b"processor ") < 1 or not said.endswith(b"\n"):
            part = stream.read(60.0)
            assert part, said
            said += part
    finally:
        stream.close()
    with load(NETWORK, device="model", config=LEAST) as session:
        (probabilities,) = session.run({"image": picture}).values()
    assert probabilities.tobytes().hex() in said.decode().splitlines()
