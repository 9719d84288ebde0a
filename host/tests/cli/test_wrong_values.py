"""Wrong values for every argument of every command: an error and a hint, before any work."""

import math
import signal

import click
import numpy as np
import pytest

from matloom import cli as front
from matloom import frontend
from matloom.cli.group import cli
from matloom.cli.network_argument import NetworkFile
from support.float_network import float_network, float_samples

_QUICK = ("--config", "nano", "--check", "none")
#: A correct command line of each command; a case appends a wrong value.
RIGHT = {
    "demo": ("--config", "nano", "--device", "model"),
    "explain": ("digits", *_QUICK),
    "run": ("digits", "--input", "random", "--device", "fast", *_QUICK),
    "evaluate": ("digits", "--input", "x.npz", "--labels", "y", *_QUICK),
    "profile": ("digits", "--device", "fast", *_QUICK),
    "tune": ("digits", "--config", "nano", "--seconds", "0", "--trials", "1", "--measured", "0"),
    "compile": ("digits", "-o", "out.mloom", *_QUICK),
    "compare": ("digits",),
    "precision": (
        *("digits", "--precision", "i8xi4", "--config", "nano+i8xi4"),
        *("--input", "x.npz", "--labels", "y"),
    ),
    "quantise": ("float.tflite", "--data", "float.npz", "-o", "small.tflite"),
    "disasm": ("digits", *_QUICK),
    "generate": ("-o", "chip", "--config", "nano"),
    "package-ip": ("-o", "chip", "--config", "nano"),
    "simulate-link": (),
    "fit": ("ulx3s-25f",),
    "explore": ("--board", "ulx3s-25f", "--network", "digits", "-o", "engines", "--points", "1"),
    "build": ("ulx3s-25f",),
    "program": ("ulx3s-25f", "top.bit"),
    "check-board": ("uart:/dev/none",),
    "boot": ("uart:/dev/none", "image.bin"),
    "firmware": ("digits", "-o", "firmware"),
    "plugin": ("litert", "digits", "-o", "plugin", "--config", "nano"),
    "simulate-board": ("ulx3s-25f",),
    "verify": ("--minutes", "0.01"),
    "replay": ("streams:1",),
    "bench": (),
    "doctor": (),
}
#: Paths that are read; all others are written.
READ = {"source", "image", "bitstream", "parent", "network", "data"}
_MISSING, _HUGE = "missing/file.x", "9" * 30
#: Values of arguments that take nearly any text.
OTHERS = {"name": ["9 lives", "matloom"]}


def wrong_values(argument):
    """Yield values that an argument must refuse."""
    kind = argument.type
    yield ""
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        yield from ("nonsense", "nan", "1e400")
        if getattr(kind, "min", -1) is not None:
            yield "-1" if getattr(kind, "min", 0) >= 0 else str(-math.inf)
        if getattr(kind, "max", None) is not None:
            yield _HUGE
    elif isinstance(kind, click.Choice):
        yield "nonsense"
    elif isinstance(kind, NetworkFile) or argument.name in READ:
        yield from (_MISSING, ".")
    elif isinstance(kind, click.Path):
        # A file has no folder there; a folder cannot be made of a file.
        folder = not kind.file_okay or (argument.name == "output" and _makes_folder(argument))
        # The report of a bench is kept in a folder that it makes.
        kept = argument in cli.commands["bench"].params
        yield from ("taken", "taken/chip") if folder else ((".",) if kept else (_MISSING, "."))
    else:
        yield from OTHERS.get(argument.name, ("nonsense", _MISSING, "-1", _HUGE))


def _makes_folder(argument):
    commands = [cli.commands[name] for name in ("build", "generate", "package-ip")]
    return any(argument in command.params for command in commands)


def cases():
    for command in cli.commands.values():
        arguments = [item for item in command.params if isinstance(item, click.Argument)]
        for item in command.params:
            if isinstance(item, click.Option) and item.is_flag:
                continue
            for value in wrong_values(item):
                words = list(RIGHT[command.name])
                if item.name == "stop":
                    words = ["digits"]
                if item in arguments:
                    words[arguments.index(item)] = value
                else:
                    words.append(f"{max(item.opts, key=len)}={value}")
                yield command.name, words, item.opts[-1], value


def _too_long(_number, _frame):
    raise AssertionError("the value was taken, and the work began")


@pytest.fixture
def deadline():
    """Stop a command that accepts a wrong value."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(tmp_path, monkeypatch, deadline):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    for name in ("top.bit", "image.bin"):
        (tmp_path / name).write_bytes(b"0")
    np.savez("x.npz", image=np.zeros((3, 8, 8, 1), np.int8), y=np.zeros(3, np.int64))
    (tmp_path / "float.tflite").write_bytes(frontend.write(float_network())[1])
    np.savez("float.npz", image=float_samples(3).squeeze(1))
    return tmp_path


def test_every_verb_is_walked():
    assert set(RIGHT) == set(cli.commands)


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize(
    ("command", "words", "argument", "value"),
    [pytest.param(*case, id=f"{case[0]} {case[2]} {case[3]!r}") for case in cases()],
)
def test_wrong_values_are_an_error_and_a_hint(command, words, argument, value, folder, monkeypatch):
    capture = {}

    def said(error):
        capture["told"] = front.complaints.error_message(error)
        return capture["told"]

    monkeypatch.setattr("sys.argv", ["matloom", command, *words])
    monkeypatch.setattr(front, "error_message", said)
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(SystemExit) as ended:
        front.main()
    assert ended.value.code == 2
    error, hint = capture["told"].splitlines()
    assert error.startswith("error: ")
    assert len(error) > len("error: ") + 15
    assert hint.startswith("hint: ")
    assert len(hint) > len("hint: ") + 8
    # Thing and value are named, and nothing was made.
    named = (value.split("/")[0], "1e+30", "inf", "finite", "folder", "directory")
    assert not value or any(name in error for name in named)
    assert {path.name for path in folder.iterdir()} == before
