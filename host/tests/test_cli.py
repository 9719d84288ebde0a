"""The command line: its commands, and its behaviour after a mistake."""

import json
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom import cli, runtime
from matloom.arch.config import PRESETS
from matloom.arch.memory import Memory
from matloom.compiler import CompileOptions, Job, run_phases
from matloom.compiler.describe import STOPS
from matloom.data.digits import NETWORK
from matloom.program import Program
from matloom.schedule.text import search_lines
from matloom.select.partition import HostRun
from matloom.tools import doctor


def run_main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["matloom", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_version():
    result = CliRunner().invoke(cli.cli, ["--version"])
    assert (result.exit_code, result.output.split()[-1]) == (0, matloom.__version__)


def test_doctor_prints_a_table():
    result = CliRunner().invoke(cli.cli, ["doctor"])
    assert result.exit_code == 0
    assert "amaranth" in result.output


def test_doctor_prints_json():
    result = CliRunner().invoke(cli.cli, ["doctor", "--json"])
    assert json.loads(result.output)["healthy"] is True


def test_doctor_fails_without_the_base(monkeypatch):
    sick = doctor.Finding(tool="g++", need="base", detail="not on PATH", remedy="install it")
    monkeypatch.setattr(doctor, "examine", lambda: [sick])
    assert CliRunner().invoke(cli.cli, ["doctor"]).exit_code == 1


@pytest.mark.parametrize(
    "error",
    [ValueError("rows must be positive,\n not 0"), OSError("rows must be positive, not 0")],
    ids=["value", "system"],
)
def test_users_mistake_is_one_line(monkeypatch, capsys, error):
    def fail():
        raise error

    monkeypatch.setattr(doctor, "examine", fail)
    assert run_main(monkeypatch, "doctor") == 2
    assert capsys.readouterr().err == "error: rows must be positive, not 0\n"


def test_defect_keeps_its_traceback(monkeypatch):
    def fail():
        raise RuntimeError

    monkeypatch.setattr(doctor, "examine", fail)
    monkeypatch.setattr(sys, "argv", ["matloom", "doctor"])
    with pytest.raises(RuntimeError):
        cli.main()


def test_unknown_verb(monkeypatch, capsys):
    assert run_main(monkeypatch, "frobnicate") == 2
    assert capsys.readouterr().err == (
        "error: matloom has no command 'frobnicate'\nhint: run: matloom --help\n"
    )


def test_precision(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    samples, report = tmp_path / "samples.npz", tmp_path / "report.json"
    with matloom.load(NETWORK, "model", "small") as session:
        (info,) = session.program.inputs
        x = rng.integers(-128, 128, (3, *info.shape[1:]), np.int8)
        labels = session.run(x).argmax(axis=1)
    np.savez(samples, **{info.name: x, "digits": labels})
    command = ["precision", str(NETWORK), "--config", "small+i8xi4", "--precision", "i8xi4"]
    given = ["--input", str(samples), "--labels", "digits", "--report", str(report)]
    result = CliRunner().invoke(cli.cli, [*command, "--precision", "stem=i8xi8", *given])
    assert result.exit_code == 0, result.output
    assert "accuracy 100.0% before" in result.output
    layers = {layer["name"]: layer["mode"] for layer in json.loads(report.read_text())["layers"]}
    assert (layers["stem"], layers["inner"]) == ("i8xi8", "i8xi4")
    for wrong, sentence in (
        (command[:2], "missing option '--precision'"),
        ([*command, "--labels", "digits"], "--labels and --by-layer must go with an --input"),
        ([*command, *given[:2], "--labels", "y"], "--labels must be one of"),
    ):
        assert run_main(monkeypatch, *wrong) == 2
        assert sentence in capsys.readouterr().err


def test_profile_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command = ["profile", str(NETWORK), "--device", "model", "--config", "small+i8xi4"]
    result = CliRunner().invoke(cli.cli, [*command, "--precision", "i8xi4"])
    assert result.exit_code == 0, result.output
    assert "i8xi4" in result.output
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_wrongly_named_inputs_are_refused_before_the_simulator_is_built(
    tmp_path, monkeypatch, capsys
):
    def open_device(*_arguments, **_options):
        raise AssertionError("the device was opened")

    monkeypatch.setattr(runtime, "open_device", open_device)
    np.savez(tmp_path / "in.npz", picture=np.zeros((1, 8, 8, 1), np.int8))
    paths = ("--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz"))
    assert run_main(monkeypatch, "run", str(NETWORK), *paths, "--config", "nano") == 2
    assert "inputs must be named" in capsys.readouterr().err


def test_memory(tmp_path, monkeypatch, capsys):
    kept, slow = tmp_path / "digits.mloom", tmp_path / "slow.json"
    slow.write_text(Memory(bytes_per_cycle=1, read_latency=90).to_json())
    command = ("compile", str(NETWORK), "--config", "nano", "--check", "none", "-o", str(kept))
    assert run_main(monkeypatch, *command, "--memory", str(slow)) == 0
    program = Program.load(kept)
    assert program.memory == Memory(bytes_per_cycle=1, read_latency=90)
    assert (
        program.predicted_cycles > runtime.compile(NETWORK, "nano", check="none").predicted_cycles
    )
    assert run_main(monkeypatch, "explain", str(kept)) == 0
    assert "predicted for memory 1 bytes per cycle, latencies 90 and 8" in capsys.readouterr().out
    assert run_main(monkeypatch, "explain", str(kept), "--memory", "reference") == 2
    assert "--memory must go with a network, not the program" in capsys.readouterr().err
    assert run_main(monkeypatch, *command, "--memory", "tape") == 2
    names = "memory must be one of reference, on-chip, sdram-16, ulx3s-sdram"
    assert names in capsys.readouterr().err


def test_check(tmp_path, monkeypatch, capsys):
    """The verdict describes the requested check, and is stored in the program."""
    program = tmp_path / "digits.mloom"
    command = ["compile", str(NETWORK), "--config", "small", "--check", "full"]
    assert run_main(monkeypatch, *command, "-o", str(program)) == 0
    capsys.readouterr()
    assert run_main(monkeypatch, "disasm", str(program)) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(
        "; checked when compiled: 100% of MACs in 4 runs on the functional model"
    )
    assert run_main(monkeypatch, "explain", str(NETWORK), "--check", "none") == 0
    assert "checked when compiled: nothing" in capsys.readouterr().out
    assert run_main(monkeypatch, "explain", str(program), "--check", "none") == 2
    assert "--check must go with a network, not the program" in capsys.readouterr().err


def test_explain_lists_what_the_search_tried(tmp_path, monkeypatch, capsys):
    explain = ("explain", str(NETWORK), "--config", "small", "--check", "none")
    assert run_main(monkeypatch, *explain) == 0
    without = capsys.readouterr().out
    assert run_main(monkeypatch, *explain, "--candidates") == 0
    tried = capsys.readouterr().out.removeprefix(without).splitlines()
    job = Job(config=PRESETS["small"], options=CompileOptions())
    run, host = run_phases(NETWORK, job, "schedule").values["schedule"].runs
    assert isinstance(host, HostRun)
    assert [line.strip() for line in tried[1:-1]] == list(search_lines(run.scheduled))
    assert any(line.endswith(": chosen") for line in tried)
    assert len(tried) > 3
    program = tmp_path / "digits.mloom"
    assert run_main(monkeypatch, "compile", *explain[1:], "-o", str(program)) == 0
    assert run_main(monkeypatch, "explain", str(program), "--candidates") == 2
    assert "--candidates must go with a network, not the program" in capsys.readouterr().err


def test_compile_stops_after_a_phase():
    arguments = ["compile", str(NETWORK), "--config", "nano", "--stop-after", "select"]
    result = CliRunner().invoke(cli.cli, arguments)
    assert result.exit_code == 0
    assert "CONV_2D_0: stem = image" in result.stdout


def test_compile_writes_or_prints(tmp_path, monkeypatch, capsys):
    for more in ([], ["--stop-after", "read", "-o", str(tmp_path / "a.mloom")]):
        assert run_main(monkeypatch, "compile", str(NETWORK), *more) == 2
        assert "either --output or --stop-after must be given" in capsys.readouterr().err


def test_a_program_is_not_written_as_c(tmp_path, monkeypatch, capsys):
    path = tmp_path / "net.c"
    assert run_main(monkeypatch, "compile", str(NETWORK), "-o", str(path)) == 2
    error = capsys.readouterr().err
    assert "--output must be a program file (.mloom) without --emit c, not 'net.c'" in error
    assert "hint: add --emit c to write C source" in error
    assert not path.exists()


def test_compile_refuses_unknown_phases_and_lists_all(monkeypatch, capsys):
    assert run_main(monkeypatch, "compile", str(NETWORK), "--stop-after", "link") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --stop-after must be one of {', '.join(STOPS)}, not 'link'")
    help_text = " ".join(CliRunner().invoke(cli.cli, ["compile", "-h"]).output.split())
    *names, last = STOPS
    assert f"{', '.join(names)} or {last}." in help_text


def test_options_incompatible_with_stop_after(tmp_path, monkeypatch, capsys):
    stop = ("--stop-after", "read")
    assert run_main(monkeypatch, "compile", str(NETWORK), *stop, "--check", "full") == 2
    assert "--check must go with --output" in capsys.readouterr().err
    assert run_main(monkeypatch, "compile", str(NETWORK), *stop, "--emit", "c") == 2
    assert "--emit must go with --output" in capsys.readouterr().err
    assert run_main(monkeypatch, "compile", str(tmp_path / "a.mloom"), *stop) == 2
    assert "--stop-after must go with a network" in capsys.readouterr().err


COMMANDS_OF_NETWORKS = ("run", "compile", "disasm", "explain", "precision", "profile", "compare")


@pytest.mark.parametrize("command", [*COMMANDS_OF_NETWORKS, "evaluate"])
def test_commands_of_networks_take_shapes(command):
    result = CliRunner().invoke(cli.cli, [command, "--help"])
    assert result.exit_code == 0
    assert "--shape" in result.output


@pytest.mark.parametrize("command", COMMANDS_OF_NETWORKS)
def test_commands_of_networks_take_exact(command):
    assert "--exact" in CliRunner().invoke(cli.cli, [command, "--help"]).output


def test_a_shape(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    path = tmp_path / "digits.mloom"
    words = ["compile", "digits", "--shape", "image=1,8,8,1", "--config", "nano", "-o", str(path)]
    result = CliRunner().invoke(cli.cli, words)
    assert result.exit_code == 0, result.output
    program = Program.load(path)
    assert (program.name, program.inputs[0].shape) == ("digits", (1, 8, 8, 1))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digits", "--shape", "x=1,8,8,1"], "a shape must be of an input (image), not 'x'"),
        (["digits", "--shape", "image=1,8"], "input 'image' must have 4 dimensions, not (1, 8)"),
        (["digits", "--shape", "image=1,8,8,3"], "input 'image' must have 1 channels, not 3"),
        (["digits", "--shape", "image=1,9,9,1"], "inputs of image (1, 9, 9, 1) do not fit the"),
        (["digits", "--shape", "1,8,8,1"], "--shape must be NAME=N,N,... (x=1,96,96,3), not '1,8"),
        (["digits", "--shape", "image=1,a"], "--shape must be NAME=N,N,... (x=1,96,96,3), not"),
        (["net.mloom", "--exact"], "--exact must go with a network, not the program 'net.mloom'"),
        (["net.mloom", "--shape", "x=1"], "--shape must go with a network, not the program 'net.m"),
    ],
)
def test_wrong_shapes(monkeypatch, capsys, words, sentence):
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    assert run_main(monkeypatch, "explain", *words) == 2
    assert sentence in capsys.readouterr().err


#: What takes long in each command, and its arguments.
LONG = {
    ("generate", "-o", "chip"): "matloom_rtl.generate.generate",
    ("package-ip", "-o", "chip"): "matloom_rtl.generate.generate",
    ("compile", "digits", "-o", "digits.mloom"): "matloom.runtime.compile",
    ("explain", "digits"): "matloom.runtime.compile",
    ("disasm", "digits"): "matloom.runtime.compile",
    ("profile", "digits"): "matloom.runtime.compile",
    ("firmware", "digits", "-o", "firmware"): "matloom.runtime.compile",
    ("compare", "digits"): "matloom.tools.compare.compare",
    ("precision", "digits", "--precision", "i8xi4"): "matloom.tools.precision.precision_report",
    ("replay", "streams:1"): "matloom.verification.replays.replay",
    ("fit", "ulx3s-85f"): "matloom.tools.fit.EngineSearch.search",
}


@pytest.mark.parametrize("arguments", LONG, ids=" ".join)
def test_long_tasks_print_progress(arguments, monkeypatch, tmp_path):
    shown = []

    @contextmanager
    def progress(text, **_options):
        shown.append(text)
        yield
        shown.pop()

    def takes_long(*_arguments, **_options):
        assert shown
        raise ValueError("it was called")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("matloom.terminal.progress.progress", progress)
    monkeypatch.setattr(LONG[arguments], takes_long)
    result = CliRunner().invoke(cli.cli, arguments)
    assert str(result.exception) == "it was called"
