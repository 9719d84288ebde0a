"""The commands of boards: their lists, refusals and messages."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from matloom.cli import boards, cli
from matloom.toolchain import soc_firmware
from matloom_rtl.board import plan
from matloom_rtl.board.definition import load_board
from matloom_rtl.fpga.progress import FlowError

PROGRAM = str(Path(sys.executable).with_name("matloom"))


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True)


def test_a_missing_tool_is_noticed_before_the_work(monkeypatch, tmp_path):
    def find(tool):
        raise FlowError(f"{tool.package} is not installed", hint="install it")

    monkeypatch.setattr("matloom_rtl.fpga.tools.find", find)
    monkeypatch.setattr(plan, "make_plan", lambda *_: pytest.fail("Verilog was made"))
    done = CliRunner().invoke(cli, ["build", "ulx3s-85f", "-o", str(tmp_path)])
    assert isinstance(done.exception, FlowError)


@pytest.mark.parametrize(
    ("words", "seeds"),
    [([], (4, 5, 6, 7)), (["--soc"], (8, 9, 10, 11)), (["--seed", "3", "--seeds", "2"], (3, 4))],
    ids=["of the board", "of its processor", "as told"],
)
def test_which_seeds_are_tried(words, seeds, monkeypatch):
    """The board's file names the first, and another one for the system on chip."""

    def planned(board, _config, _clock_hz, rom, _cpu):
        board = board if rom is None else board.with_processor()
        device = SimpleNamespace(name="a device")
        return SimpleNamespace(board=board, clock_mhz=70, device=device, name="board")

    monkeypatch.setattr("matloom_rtl.fpga.tools.find", lambda tool: None)

    def built(_plan, tried, _jobs, first):
        raise ValueError(f"{tried}, {first}")

    monkeypatch.setattr(plan, "make_plan", planned)
    monkeypatch.setattr(soc_firmware, "boot_rom", lambda: b"")
    monkeypatch.setattr(boards, "build_in_cache", built)
    found = CliRunner().invoke(cli, ["build", "ulx3s-85f", *words])
    assert str(found.exception) == f"{seeds}, {'--seeds' not in words}"


def test_list():
    done = run("build", "--list")
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    wanted = {
        "arty-a7-35t",
        "ulx3s-85f",
        "ulx3s-25f",
        "orangecrab-85f",
        "colorlight-5a75b",
        "tang-nano-20k",
    }
    assert wanted <= set(names)
    # Columns are straight, however long the engines' texts are.
    described = dict(zip(names, done.stdout.splitlines(), strict=True))
    known = {name: load_board(name) for name in wanted}
    assert len({described[name].index(board.title) for name, board in known.items()}) == 1
    assert all(described[name].endswith(f" {board.config}") for name, board in known.items())


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["build", "ulx4m"], "a board must be one of arty-a7-35t, "),
        (["build", "ulx3s-85f", "--config", "tiny"], "config"),
        (["build", "ulx3s-85f", "--freq", "3"], "clock must be one that a PLL of the ECP5 makes"),
        (["build", "ulx3s-85f", "--cpu", "lite"], "--cpu lite must go with --soc"),
        (["build", "arty-a7-35t", "--soc"], "--soc must go with a device that open tools support"),
        (["fit", "ulx4m"], "a board must be one of arty-a7-35t, "),
        (["fit", "ulx3s-85f", "--network", "none.tflite"], "none.tflite"),
        (["fit", "ulx3s-85f", "--network", __file__], "not a TensorFlow Lite or ONNX file"),
        (["fit", "ulx3s-25f", "--freq", "399"], "no engine fits ulx3s-25f at 4"),
        (["fit", "arty-a7-35t"], "of the families ecp5, gowin, not xilinx"),
        (["program", "ulx3s-85f", "none.bit"], "cannot read none.bit: no such file"),
        (["check-board", "rtl"], "a board must be at uart:PORT[@BAUD], not 'rtl'"),
        (["boot", "tty9"], "a board must be at uart:PORT[@BAUD], not 'tty9'"),
        (["boot", "uart:tty9", "none.bin"], "cannot read none.bin: no such file"),
        (["simulate-board", "ulx3s-85f", "--cpu", "lite"], "--cpu lite must go with --soc"),
        (["simulate-board", "ulx3s-85f", "--soc", "--cpu", "big"], "one of default, lite"),
        (["simulate-board", "ulx4m"], "a board must be one of arty-a7-35t, "),
    ],
)
def test_mistakes_are_one_sentence(words, sentence):
    done = run(*words)
    assert done.returncode == 2
    # Lines of progress may come first.
    assert "\nerror: " in f"\n{done.stderr}"
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_fit_prints_its_limit_and_certainty():
    network = Path(__file__).parents[1] / "matloom" / "data" / "digits.tflite"
    done = run("fit", "ulx3s-25f", "--network", str(network))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    times = [
        float(line.split("digits.tflite ")[1].split(" ms")[0]) for line in lines if " ms" in line
    ]
    assert len(times) >= 2
    assert times == sorted(times)
    assert any(line.startswith("Limit: of larger arrays the nearest, ") for line in lines)
    assert "each left out and predicted by the others" in lines[-1]
