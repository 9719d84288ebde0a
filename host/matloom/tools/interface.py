"""Inputs and outputs of a program: a table of them, and random inputs."""

from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.arch.config_name import described
from matloom.pre import preprocessing_of
from matloom.program import Program, TensorInfo
from matloom.terminal.tables import NameTable, layer_table

__all__ = ["array_line", "interface_table", "random_arrays"]

#: Elements of an array that are printed.
_SHOWN = 10


def interface_table(program: Program) -> NameTable:
    """Return a table of inputs and outputs: name, dtype, shape and quantisation.

    The real number is scale * (integer - zero point).
    """
    table = layer_table(
        f"{program.name} for configuration {described(program.config)}",
        ("", "", "type", "shape"),
        ("scale", "zero point"),
    )
    for side, infos in (("input", program.inputs), ("output", program.outputs)):
        for info in infos:
            shape = "x".join(map(str, info.shape)) or "scalar"
            table.add_row(info.name, side, info.dtype, shape, *_quantisation(info))
    return table


def _quantisation(info: TensorInfo) -> tuple[str, str]:
    """Return scale and zero point as table cells; empty if there are none."""
    if info.quantised is None:
        return "", ""
    return str(np.float32(info.quantised.scale)), str(info.quantised.zero_point)


def array_line(name: str, array: npt.NDArray[Any]) -> str:
    """Return a line on an array: name, dtype, shape, and its first elements."""
    shape = "x".join(map(str, array.shape)) or "scalar"
    values = " ".join(str(value) for value in array.reshape(-1)[:_SHOWN].tolist())
    rest = f" ... ({array.size:,} elements)" if array.size > _SHOWN else ""
    return f"{name}: {array.dtype} {shape}: {values}{rest}"


def random_arrays(program: Program, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Return one random sample of each input by name: uniform integers, normal floats.

    An input with preprocessing gets raw data.
    """
    generator = np.random.default_rng(seed)
    stages = preprocessing_of(program)
    inputs: dict[str, npt.NDArray[Any]] = {}
    for info in program.inputs:
        dtype = np.dtype(info.dtype)
        if info.name in stages:
            inputs[info.name] = stages[info.name].random(generator)
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype)
            inputs[info.name] = generator.integers(
                limits.min, limits.max, info.shape, dtype, endpoint=True
            )
        elif dtype.kind == "b":
            inputs[info.name] = generator.integers(0, 2, info.shape).astype(dtype)
        else:
            inputs[info.name] = generator.standard_normal(info.shape).astype(dtype)
    return inputs
