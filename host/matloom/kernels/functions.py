"""Functions of one number: in floating point, and as tables of bytes."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from matloom.ir.attributes import Function
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import round_half_away
from matloom.kernels.expressions import evaluate

#: Expressions by the name of TensorFlow Lite's operator. GELU (D. Hendrycks and K. Gimpel, 2016)
#: has two forms: exact, and approximated with a hyperbolic tangent, from the same paper.
FUNCTIONS: Mapping[str, str] = {
    "ABS": "Abs(x)",
    "ELU": "Elu(x, 1.0)",
    "EXP": "Exp(x)",
    "GELU": f"Mul(Mul(x, 0.5), Add(Erf(Mul(x, {math.sqrt(0.5)!r})), 1.0))",
    "GELU_TANH": (
        "Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, 3.0), 0.044715)), "
        f"{math.sqrt(2 / math.pi)!r})), 1.0))"
    ),
    "LOG": "Log(x)",
    "RSQRT": "Reciprocal(Sqrt(x))",
}


def apply_function(name: str, x: Array) -> Array:
    """Return the values of a function at `x`, in float32; infinite or NaN where it is undefined.

    `name` is a key of `FUNCTIONS`, or an expression.
    """
    with np.errstate(all="ignore"):
        return evaluate(FUNCTIONS.get(name, name), x.astype(np.float64)).astype(np.float32)


def closest_function(
    names: Iterable[str], x: Array, results: Array, tolerance: float
) -> str | None:
    """Return the name of the function whose values at `x` are closest to `results`.

    Returns None if no error is within `tolerance`, which is relative to the larger of 1 and the
    function's magnitude. A function must be finite exactly where `results` are finite.
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
    """FUNCTION of int8: the function of each byte's real value, rounded to the nearest byte."""
    given, made = (graph.tensors[number] for number in (node.inputs[0], node.output))
    every = np.arange(-128, 128)
    numbers = (np.float32(given.scale) * (every - given.zero_point)).astype(np.float32)
    results = apply_function(node.attributes_as(Function).function, numbers)
    steps = np.nan_to_num(results / np.float32(made.scale), posinf=1e6, neginf=-1e6)
    table = np.clip(round_half_away(steps) + made.zero_point, -128, 127).astype(np.int8)
    result: Array = table[inputs[0].astype(np.int64) + 128]
    return result
