"""Errors with a hint: contents, appearance in a traceback, and pickling."""

import ast
import pickle
import traceback
from pathlib import Path

import pytest

import matloom
from matloom.errors import (
    HintedError,
    MissingPackageError,
    UserError,
    did_you_mean,
    install_command,
)

SOURCE = Path(matloom.__file__).parent
SHOWN = ("UserError", "UserTypeError")


class _LostError(HintedError, OSError):
    pass


@pytest.mark.parametrize("kind", [HintedError, UserError, _LostError])
def test_the_hint_is_shown_by_a_traceback_and_survives_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("it broke", hint="mend it")))
    assert (str(error), error.hint) == ("it broke", "mend it")
    shown = "".join(traceback.format_exception(error))
    assert shown.endswith("it broke\nhint: mend it\n")
    plain = kind("it broke")
    assert plain.hint == ""
    assert not hasattr(plain, "__notes__")


def test_errors_that_verbs_show_have_a_hint():
    """Rooms whose errors reach the command line; `compat` repeats those of other packages."""
    missing = []
    rooms = ("cli", "frontend", "plugins", "pre", "quantiser", "tools")
    for path in (path for room in rooms for path in (SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            error = node.exc if isinstance(node, ast.Raise) else None
            named = isinstance(error, ast.Call) and ast.unparse(error.func) in SHOWN
            if named and "hint" not in {keyword.arg for keyword in error.keywords}:
                missing.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not missing


def test_a_missing_package_names_the_versions_that_are_wanted():
    error = pickle.loads(pickle.dumps(MissingPackageError("tflite-micro", "comparing")))
    assert str(error) == "comparing needs the package tflite-micro, which is not installed"
    assert error.hint == "run: python -m pip install 'tflite-micro>=0.dev2025'"
    assert isinstance(error, ModuleNotFoundError)


def test_install_command_of_an_unlisted_package():
    assert install_command("some_thing") == "python -m pip install 'some_thing'"
    assert install_command("ML_dtypes") == "python -m pip install 'ml-dtypes>=0.5'"


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("smal", "did you mean 'small'?"),
        ("SMALL", "did you mean 'small'?"),
        ("referense", "did you mean 'reference'?"),
        ("zzz", ""),
        ("", ""),
        (b"x", ""),
    ],
)
def test_near_names(given, hint):
    assert did_you_mean(given, ["nano", "small", "reference"]) == hint
