"""Errors with a hint: contents, appearance in a traceback, and pickling."""

import pickle
import traceback

import pytest

from matloom.errors import (
    HintedError,
    MissingPackageError,
    UserError,
    did_you_mean,
    install_command,
)


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
