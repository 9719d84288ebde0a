"""Names in files may contain anything; printed, they never move the cursor or forge a line."""

import re
import unicodedata

import numpy as np
import pytest
from click.testing import CliRunner

from matloom.cli.complaints import error_message
from matloom.cli.group import cli
from matloom.errors import UserError
from matloom.printable import printable, printable_lines
from matloom.terminal.progress import _Step

pytest.importorskip("tflite", reason="tflite is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

#: A colour, a bell, a forged line, a deletion, marks that reorder, a C1 command, an invisible one.
HOSTILE = "\x1b[31mred\x07\nerror: forged\r\x08\x7f\u202e\u2066\x9b2J\u200b\x85\u2028\t"
#: As many columns once they are escaped, so that tables are as wide.
HARMLESS = "n" * len(printable(HOSTILE))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("", ""),
        ("plain é ü 日本 👍 a\\b", "plain é ü 日本 👍 a\\b"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\u202eabc\u2069", r"\u202eabc\u2069"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
        ("\u2028", r"\u2028"),
        ("\xa0\u3000", "\xa0\u3000"),
    ],
)
def test_printable(given, shown):
    assert printable(given) == shown
    assert printable(shown) == shown


def test_every_control_character_is_escaped():
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert re.fullmatch(r"\\[ntr]|\\x..|\\u.{4}|\\U.{8}", printable(character)), hex(code)


def test_lines_stay_lines():
    assert printable_lines("a\x07\nb\r\n") == "a\\x07\nb\\r\n"


def network(name):
    """Return a file whose tensors and operator are named: a dense layer, ELU, an unknown one."""
    tensors = [
        FileTensor(name=f"{name}{number}", shape=shape, scales=(0.05,), zeros=(3,), data=data)
        for number, (shape, data) in enumerate(
            [((1, 8), None), ((4, 8), np.ones((4, 8), np.int8)), ((1, 4), None), ((1, 4), None)]
        )
    ]
    tensors[1] = FileTensor(
        name=name, shape=(4, 8), scales=(0.01,), zeros=(0,), data=np.ones((4, 8), np.int8)
    )
    dense = FileOperator(
        name="FULLY_CONNECTED",
        inputs=(0, 1),
        outputs=(2,),
        options=("FullyConnectedOptions", {}),
    )
    elu = FileOperator(name="ELU", inputs=(2,), outputs=(3,))
    return write_file(
        FileNetwork(tensors=tuple(tensors), operators=(dense, elu), inputs=(0,), outputs=(3,))
    )


@pytest.fixture
def folders(tmp_path):
    """Return two folders with the same network, with a harmless and a hostile name."""
    found = []
    for number, name in enumerate((HARMLESS, HOSTILE)):
        (tmp_path / str(number)).mkdir()
        file = tmp_path / str(number) / f"{name}.tflite"
        file.write_bytes(network(name))
        np.savez(file.with_suffix(".npz"), **{f"{name}0": np.zeros((3, 1, 8), np.int8)})
        np.save(file.with_suffix(".npy"), np.zeros(3, np.int64))
        found.append(file)
    return found


def told(words, file):
    """Return the output of a command: stdout, and progress and errors on stderr."""
    names = {"NET": file, "NPZ": file.with_suffix(".npz"), "NPY": file.with_suffix(".npy")}
    names["TENSOR"] = f"{file.stem}0"
    done = CliRunner().invoke(cli, [str(names.get(word, word)) for word in words])
    failed = done.exception is not None and not isinstance(done.exception, SystemExit)
    return f"{done.stdout}\n{error_message(done.exception) if failed else ''}", done.stderr


QUICK = ("--config", "nano", "--check", "none")
LINES = [
    ("explain", "NET", *QUICK),
    ("explain", "NET", "--candidates", *QUICK),
    ("disasm", "NET", *QUICK),
    ("profile", "NET", "--device", "fast", *QUICK),
    ("run", "NET", "--input", "NPZ", "--outputs", "all", "--device", "fast", *QUICK),
    ("run", "NET", "--input", "random", "--outputs", "TENSOR", "--device", "fast", *QUICK),
    ("evaluate", "NET", "--input", "NPZ", "--labels", "NPY", *QUICK),
    *(
        ("compile", "NET", "--stop-after", stop, "--config", "nano")
        for stop in ("read", "select", "bind", "tile", "order", "allocate", "emit", "assemble")
    ),
    # Mistakes.
    ("run", "NET", "--input", "NPZ", "--device", HOSTILE, *QUICK),
    ("explain", "NET", "--precision", f"{HOSTILE}=i8xi4", *QUICK),
    ("explain", "NPZ", *QUICK),
    ("explain", "NET", "--config", HOSTILE),
    ("explain", f"{HOSTILE}.tflite"),
]


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("words", LINES, ids=lambda words: " ".join(map(printable, words[:3])))
def test_commands_print_no_control_character(words, folders):
    (harmless, _), (hostile, progress) = (told(words, file) for file in folders)
    for line in (*hostile.split("\n"), *progress.split("\n")):
        assert line == printable(line)
    # The same lines: none is forged.
    assert len(hostile.split("\n")) == len(harmless.split("\n"))
    assert len(harmless.strip()) > len(HARMLESS)


def test_errors_and_progress_are_printable():
    error = UserError(f"no {HOSTILE}", hint=f"try {HOSTILE}")
    assert str(error) == f"no {printable_lines(HOSTILE)}"
    assert error_message(ValueError(HOSTILE)).count("\n") == 0
    step = _Step(HOSTILE, None)
    step.note = HOSTILE
    assert step.line() == printable(step.line())
    assert step.text == printable(HOSTILE)
