"""Expands registered operators into Matloom's own, and checks that the results are the same."""

from collections.abc import Iterator

import numpy as np

from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Array, Graph, Tensor
from matloom.kernels.interpreter import interpret
from matloom.kernels.registered import (
    OperatorError,
    OperatorUse,
    RegisteredOperator,
    declared_outputs,
    run_kernel,
)

#: Number of random inputs on which a kernel is compared with its stages, besides fixed ones.
_RANDOM_INPUTS = 3
#: Tolerance for floating-point results of stages, relative to the kernel's largest result.
_TOLERANCE = 1e-5


class Expansion:
    """The graph that replaces a registered operator, and its inputs' and outputs' numbers."""

    def __init__(self, graph: Graph, inputs: list[int], outputs: list[int]) -> None:
        self.graph, self.inputs, self.outputs = graph, inputs, outputs


def complete_use(operator: RegisteredOperator, use: OperatorUse, names: list[str]) -> OperatorUse:
    """Return `use` with its output tensors added, after a run of the kernel on zeros.

    Outputs that the file does not declare get the names in `names`, the shapes that the operator's
    `shape` returns, and the types of the kernel's results.

    Raises
    ------
    OperatorError
        `shape` or the kernel fails, or their shapes or types differ from each other or from the
        declared ones.
    """
    shapes = declared_outputs(operator, use)
    if use.outputs:
        declared = [tensor.shape for tensor in use.outputs]
        if shapes != declared:
            raise OperatorError(
                f"shape of {operator.name} must return {_list_shapes(declared)}, as the file "
                f"declares, not {_list_shapes(shapes)}"
            )
        whole = use
    else:
        if len(shapes) != len(names):
            raise OperatorError(
                f"shape of {operator.name} must return {len(names)} shapes, not {len(shapes)}"
            )
        results = run_kernel(operator, use, next(_test_inputs(use)))
        outputs = tuple(
            Tensor(name=name, shape=shape, dtype=array.dtype.name)
            for name, shape, array in zip(names, shapes, results, strict=False)
        )
        whole = OperatorUse(inputs=use.inputs, outputs=outputs, attributes=use.attributes)
    run_kernel(operator, whole, next(_test_inputs(whole)))
    return whole


def expand(operator: RegisteredOperator, use: OperatorUse) -> Expansion:
    """Return the graph that replaces a registered operator, after comparing it with the kernel.

    Raises
    ------
    OperatorError
        The stages fail, or their outputs have other shapes, types, scales or values than the
        kernel's.
    """
    expansion = _build_expansion(operator, use)
    for draw in _test_inputs(use):
        wanted = run_kernel(operator, use, draw)
        arrays = {
            number: array
            for number, array in zip(expansion.inputs, draw, strict=True)
            if number in expansion.graph.inputs
        }
        found = interpret(expansion.graph, arrays)
        for number, array in zip(expansion.outputs, wanted, strict=True):
            _require_equal(operator, array, found[number])
    return expansion


def _build_expansion(operator: RegisteredOperator, use: OperatorUse) -> Expansion:
    """Return the graph that an operator's function `stages` makes for one use, after checks."""
    assert operator.stages is not None
    builder, numbers = _builder_with_inputs(use)
    try:
        output_numbers = operator.stages(use, builder, *numbers)
        outputs = [output_numbers] if isinstance(output_numbers, int) else list(output_numbers)
        graph = builder.graph(*outputs)
    # The function is user code.
    except Exception as error:
        line = " ".join(str(error).split())
        raise OperatorError(
            f"stages of {operator.name} failed: {type(error).__name__}: {line}"
        ) from error
    kinds = [[_describe_tensor(tensor) for tensor in use.outputs]]
    kinds.append([_describe_tensor(graph.tensors[number]) for number in outputs])
    if kinds[0] != kinds[1]:
        raise OperatorError(
            f"stages of {operator.name} must make {'; '.join(kinds[0])}, not {'; '.join(kinds[1])}"
        )
    by_nodes = {number for node in graph.nodes for number in node.outputs}
    if len({*outputs}) < len(outputs) or not by_nodes.issuperset(outputs):
        raise OperatorError(f"stages of {operator.name} must make each output by an operator")
    return Expansion(graph, numbers, outputs)


def _builder_with_inputs(use: OperatorUse) -> tuple[GraphBuilder, list[int]]:
    """Return a graph builder that has the operator's inputs, and their tensor numbers."""
    builder = GraphBuilder("stages")
    numbers = []
    for at, tensor in enumerate(use.inputs):
        if tensor.data is None:
            number = builder.input(f"input {at}", tensor.shape, tensor.dtype, tensor.quantisation)
        else:
            number = builder.constant(tensor.data, tensor.quantisation)
        numbers.append(number)
    return builder, numbers


def _describe_tensor(tensor: Tensor) -> str:
    """Return a tensor's type, shape and quantisation as text."""
    quantisation = tensor.quantisation
    scaled = (
        ""
        if quantisation is None
        else f" of scale {quantisation.scale}, zero point {quantisation.zero_point}"
    )
    return f"{tensor.dtype} {tensor.shape}{scaled}"


def _list_shapes(shapes: list[tuple[int, ...]]) -> str:
    """Return shapes as text, separated by commas."""
    return ", ".join(map(str, shapes))


def _test_inputs(use: OperatorUse) -> Iterator[list[Array]]:
    """Yield inputs to test with: zeros, lowest values, highest values, and several random ones.

    The lowest and highest floats are -10 and 10; booleans are always False. Constants keep their
    values.
    """
    draw = np.random.default_rng(0)
    for kind in ("zeros", "low", "high", *["random"] * _RANDOM_INPUTS):
        yield [
            _random_input(draw, kind, tensor) if tensor.data is None else tensor.data
            for tensor in use.inputs
        ]


def _random_input(rng: np.random.Generator, kind: str, tensor: Tensor) -> Array:
    """Return test data for a tensor; `kind` is "zeros", "low", "high" or "random"."""
    dtype = np.dtype(tensor.dtype)
    if kind == "zeros" or dtype.kind == "b":
        return np.zeros(tensor.shape, dtype)
    if dtype.kind == "f":
        scale = {"low": -10.0, "high": 10.0}.get(kind)
        numbers = rng.standard_normal(tensor.shape) if scale is None else scale
        return np.broadcast_to(numbers, tensor.shape).astype(dtype)
    ends = np.iinfo(dtype)
    if kind == "random":
        return rng.integers(ends.min, ends.max, tensor.shape, dtype, endpoint=True)
    return np.full(tensor.shape, ends.min if kind == "low" else ends.max, dtype)


def _require_equal(operator: RegisteredOperator, expected: Array, actual: Array) -> None:
    """Raise `OperatorError` unless an expansion's result equals the kernel's, floats nearly."""
    if expected.dtype.kind == "f":
        finite = np.abs(expected[np.isfinite(expected)])
        close = _TOLERANCE * float(finite.max(initial=0.0))
        same = np.isclose(actual, expected, rtol=0, atol=close, equal_nan=True)
    else:
        same = actual == expected
    if not same.all():
        at = tuple(map(int, np.argwhere(~same)[0]))
        raise OperatorError(
            f"stages of {operator.name} must give what its kernel gives: {expected[at]} at {at}, "
            f"not {actual[at]} ({int((~same).sum())} of {same.size} elements differ)"
        )
