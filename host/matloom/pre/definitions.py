"""Converts preprocessing to and from JSON, and puts it in front of the inputs of a program."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matloom.errors import UserTypeError, unknown_name_error
from matloom.ir.graph import Array
from matloom.pre.errors import RawDataError
from matloom.pre.image import Image
from matloom.pre.mel import LogMel, Mfcc
from matloom.pre.micro_frontend import MicroFrontend
from matloom.pre.preprocessing import Preprocessing
from matloom.program import PreprocessInfo, Program

_KINDS: dict[str, type[Preprocessing]] = {
    kind.__name__: kind for kind in (Image, LogMel, Mfcc, MicroFrontend)
}


def dumps(preprocessing: Preprocessing) -> str:
    """Return preprocessing as JSON, without defaults: ``{"Image": {"size": [96, 96]}}``."""
    given = {
        item.name: getattr(preprocessing, item.name)
        for item in dataclasses.fields(preprocessing)
        if getattr(preprocessing, item.name) != item.default
    }
    return json.dumps({type(preprocessing).__name__: given})


@functools.lru_cache(maxsize=64)
def loads(text: str) -> Preprocessing:
    """Return the preprocessing that JSON from `dumps` describes.

    Raises
    ------
    RawDataError
        The text is not JSON, or has an unknown kind or field, a missing field or a wrong value.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise RawDataError(f"preprocessing must be JSON: {error}") from None
    if not isinstance(found, dict) or len(found) != 1:
        raise RawDataError(
            f'preprocessing must be an object such as {{"Image": ...}}, not {text!r}'
        )
    ((name, given),) = found.items()
    if name not in _KINDS:
        raise unknown_name_error(RawDataError, "preprocessing", name, _KINDS)
    fields = dataclasses.fields(_KINDS[name])
    known = [item.name for item in fields]
    if not isinstance(given, dict):
        raise RawDataError(f"{name} must be an object of {', '.join(known)}, not {given!r}")
    for field in given:
        if field not in known:
            raise unknown_name_error(RawDataError, f"a field of {name}", field, known)
    for item in fields:
        if item.name not in given and item.default is dataclasses.MISSING:
            raise RawDataError(f"{name} must have a value for {item.name}")
    try:
        return _KINDS[name](**given)
    except TypeError as error:
        raise RawDataError(f"{name} has a field of a wrong type: {error}") from None


def attach(
    program: Program, preprocessing: Preprocessing | Mapping[str, Preprocessing] | None
) -> Program:
    """Return a program with preprocessing in front of its only input, or of inputs by name.

    It replaces all preprocessing that the program has; None returns the program unchanged.

    Raises
    ------
    RawDataError
        No input has this name, the program has several inputs but no name is given, or the input
        has another shape.
    UserError
        The input has integers without a scale.
    UserTypeError
        `preprocessing` is no preprocessing.
    """
    if preprocessing is None:
        return program
    infos = {info.name: info for info in program.inputs}
    if isinstance(preprocessing, Preprocessing):
        preprocessing = {single_input(program, "preprocessing"): preprocessing}
    if not isinstance(preprocessing, Mapping):
        raise UserTypeError(
            "preprocess must be one of matloom.pre, or a mapping of them by the name of the input, "
            f"not {type(preprocessing).__name__}",
            hint="write preprocess=matloom.pre.Image(size=(96, 96))",
        )
    for name, item in preprocessing.items():
        if name not in infos:
            raise unknown_name_error(RawDataError, "an input to preprocess", name, infos)
        item.require(infos[name])
    made = tuple(
        PreprocessInfo(tensor=infos[name].key, definition=dumps(item))
        for name, item in preprocessing.items()
    )
    return replace(program, preprocessing=made)


def single_input(program: Program, subject: str) -> str:
    """Return the name of a program's only input; raise `RawDataError` if it has several.

    `subject` begins the message: it names what must be given by name.
    """
    names = [info.name for info in program.inputs]
    if len(names) != 1:
        raise RawDataError(f"{subject} must be by name for the inputs {', '.join(names)}")
    return names[0]


def preprocessing_of(program: Program) -> dict[str, Preprocessing]:
    """Return the preprocessing of a program's inputs, by name; inputs without any are missing.

    Raises `RawDataError` if a definition is invalid or does not fit its input.
    """
    names = {info.key: info for info in program.inputs}
    found = {}
    for item in program.preprocessing:
        info = names[item.tensor]
        found[info.name] = loads(item.definition)
        found[info.name].require(info)
    return found


def prepare_inputs(program: Program, inputs: Mapping[str, Any]) -> Mapping[str, Array]:
    """Return inputs by name, after applying preprocessing to those that have any."""
    stages = preprocessing_of(program)
    if not stages:
        return inputs
    infos = {info.name: info for info in program.inputs}
    return {
        name: stages[name].batch(given, infos[name]) if name in stages else given
        for name, given in inputs.items()
    }
