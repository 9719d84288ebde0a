"""Functions of one number: in floating point, and as tables of bytes."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import Function
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import round_half_away

_Numbers = npt.NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: _Numbers) -> _Numbers:
    """Return the Gaussian error linear unit (D. Hendrycks and K. Gimpel, 2016)."""
    return np.asarray(x * (1 + _erf(x / math.sqrt(2))) / 2)


def _gelu_tanh(x: _Numbers) -> _Numbers:
    """Return the approximation of the GELU by a hyperbolic tangent, from the same paper."""
    return np.asarray(x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)


def _elu(x: _Numbers) -> _Numbers:
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


#: By name: that of TensorFlow Lite's operator. GELU has two forms.
FUNCTIONS: Mapping[str, Callable[[_Numbers], _Numbers]] = {
    "ABS": np.abs,
    "ELU": _elu,
    "EXP": np.exp,
    "GELU": _gelu,
    "GELU_TANH": _gelu_tanh,
    "LOG": np.log,
    "RSQRT": lambda x: 1 / np.sqrt(x),
}


def apply_function(name: str, x: Array) -> Array:
    """Return a function of numbers as float32; infinite or NaN where it has no value."""
    with np.errstate(all="ignore"):
        return FUNCTIONS[name](x.astype(np.float64)).astype(np.float32)


def closest_function(
    names: Iterable[str], x: Array, results: Array, tolerance: float
) -> str | None:
    """Return the function whose results at `x` are closest; None if all are too far off.

    `tolerance` is the largest error, relative to the larger of 1 and the result. Where a function
    has no value, there must be none.
    """
    errors = {}
    for name in names:
        wanted = apply_function(name, x).astype(np.float64)
        if np.array_equal(np.isfinite(wanted), np.isfinite(results)):
            known = np.isfinite(wanted)
            error = np.abs(results[known] - wanted[known]) / np.maximum(1, np.abs(wanted[known]))
            errors[name] = error.max(initial=0)
    best = min(errors, key=errors.__getitem__, default=None)
    return best if best is not None and errors[best] <= tolerance else None


def float_function(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """FUNCTION of float32."""
    return apply_function(node.attributes_as(Function).function, inputs[0])


def byte_function(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """FUNCTION of int8: the nearest byte to the function of the number that a byte stands for."""
    given, made = (graph.tensors[number] for number in (node.inputs[0], node.output))
    every = np.arange(-128, 128)
    numbers = (np.float32(given.scale) * (every - given.zero_point)).astype(np.float32)
    results = apply_function(node.attributes_as(Function).function, numbers)
    steps = np.nan_to_num(results / np.float32(made.scale), posinf=1e6, neginf=-1e6)
    table = np.clip(round_half_away(steps) + made.zero_point, -128, 127).astype(np.int8)
    result: Array = table[inputs[0].astype(np.int64) + 128]
    return result
