"""Inputs and outputs of a program: a table of them, and random inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.arch.config_name import describe_config
from matloom.arch.program_file import LOOP
from matloom.ir.graph import Op, Tensor
from matloom.ir.indices import index_lengths, selected_length
from matloom.pre import preprocessing_of
from matloom.program import HostStep, Program, TensorInfo
from matloom.program.node import step_graph, tensors_by_name
from matloom.terminal.tables import NameTable, layer_table

#: Maximum number of elements of an array to print.
_SHOWN_ELEMENTS = 10


def interface_table(program: Program) -> NameTable:
    """Return a table of inputs and outputs: name, dtype, shape and quantisation.

    A real number is scale * (integer - zero point).
    """
    table = layer_table(
        f"{program.name} for configuration {describe_config(program.config)}",
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
    values = " ".join(str(value) for value in array.reshape(-1)[:_SHOWN_ELEMENTS].tolist())
    rest = f" ... ({array.size:,} elements)" if array.size > _SHOWN_ELEMENTS else ""
    return f"{name}: {array.dtype} {shape}: {values}{rest}"


def random_arrays(program: Program, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Return one random sample of each input by name, as drawn by `random_array`.

    An input with preprocessing gets random raw data; indices of GATHER are valid.
    """
    generator = np.random.default_rng(seed)
    stages = preprocessing_of(program)
    steps = [step for step in program.steps if isinstance(step, HostStep)]
    opaque = any(step.operator in (Op.REFERENCE, LOOP) for step in steps)
    tensors = tensors_by_name(program)
    indices = index_lengths(
        (step.inputs, step.outputs, _gathered_length(step, tensors)) for step in steps
    )
    return {
        info.name: stages[info.name].random(generator)
        if info.name in stages
        else random_array(
            generator, info.shape, info.dtype, counts=opaque, length=indices.get(info.key)
        )
        for info in program.inputs
    }


def _gathered_length(step: HostStep, tensors: Mapping[str, Tensor]) -> int | None:
    """Return the length of the axis that a GATHER selects from; None for other operators."""
    if step.operator != Op.GATHER:
        return None
    graph = step_graph(step, tensors)
    return selected_length(graph.tensors, graph.nodes[0])


def random_array(
    generator: np.random.Generator,
    shape: tuple[int, ...],
    dtype: str,
    *,
    counts: bool,
    length: int | None = None,
) -> npt.NDArray[Any]:
    """Return an array of uniform integers or booleans, or of normally distributed floats.

    Integers are below `length`, or cover their whole range. With `counts`, those of 32 and 64 bits
    are from 0 to 9, because an unknown operator may use them as an index, or as a number of
    iterations.
    """
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        small = counts and kind in (np.int32, np.int64, np.uint32, np.uint64)
        limits = (0, 9) if small else (np.iinfo(kind).min, np.iinfo(kind).max)
        if length is not None:
            limits = (0, length - 1)
        return generator.integers(*limits, shape, kind, endpoint=True)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(kind)
    real = generator.standard_normal(shape)
    return (real + 1j * generator.standard_normal(shape) if kind.kind == "c" else real).astype(kind)
