"""Functions of one number, written as nested steps: ``Mul(x, Tanh(Softplus(x)))``.

Steps have the names and the meaning of ONNX's operators (https://onnx.ai/onnx/operators). After its
operands, a step has all of its parameters: ``Elu(x, 1.0)``.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.float64]
_Step = Callable[..., _Numbers]

#: Maximum number of characters of an expression: nested steps that repeat an operand grow fast.
_MAX_LETTERS = 2000

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _celu(x: _Numbers, alpha: float) -> _Numbers:
    """Return x, or alpha * (exp(x / alpha) - 1) below 0."""
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0) / alpha), x)


def _elu(x: _Numbers, alpha: float) -> _Numbers:
    """Return x, or alpha * (exp(x) - 1) below 0."""
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _hard_sigmoid(x: _Numbers, alpha: float, beta: float) -> _Numbers:
    """Return alpha * x + beta, limited to 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


def _leaky_relu(x: _Numbers, alpha: float) -> _Numbers:
    """Return x, or alpha * x below 0."""
    return np.where(x < 0, alpha * x, x)


def _relu(x: _Numbers) -> _Numbers:
    """Return x, or 0 below 0."""
    return np.maximum(x, 0)


def _selu(x: _Numbers, alpha: float, gamma: float) -> _Numbers:
    """Return gamma * elu(x)."""
    return gamma * _elu(x, alpha)


def _shrink(x: _Numbers, bias: float, limit: float) -> _Numbers:
    """Return x moved by `bias` towards 0 beyond `limit` on either side, and 0 between."""
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))


def _sigmoid(x: _Numbers) -> _Numbers:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 + 0.5 * np.tanh(x / 2))


def _softplus(x: _Numbers) -> _Numbers:
    """Return log(1 + exp(x)), without overflow."""
    return np.logaddexp(0, x)


def _softsign(x: _Numbers) -> _Numbers:
    """Return x / (1 + |x|)."""
    return np.asarray(x / (1 + np.abs(x)))


def _thresholded_relu(x: _Numbers, alpha: float) -> _Numbers:
    """Return x above alpha, or else 0."""
    return np.where(x > alpha, x, 0)


#: Function of each step, and its parameters with their defaults in ONNX, by the step's name.
STEPS: Mapping[str, tuple[_Step, Mapping[str, float]]] = {
    "Abs": (np.abs, {}),
    "Add": (np.add, {}),
    "Celu": (_celu, {"alpha": 1.0}),
    "Clip": (np.clip, {}),
    "Cos": (np.cos, {}),
    "Div": (np.divide, {}),
    "Elu": (_elu, {"alpha": 1.0}),
    "Equal": (np.equal, {}),
    "Erf": (_erf, {}),
    "Exp": (np.exp, {}),
    "Greater": (np.greater, {}),
    "GreaterOrEqual": (np.greater_equal, {}),
    "HardSigmoid": (_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": (_leaky_relu, {"alpha": 0.01}),
    "Less": (np.less, {}),
    "LessOrEqual": (np.less_equal, {}),
    "Log": (np.log, {}),
    "Max": (np.maximum, {}),
    "Min": (np.minimum, {}),
    "Mul": (np.multiply, {}),
    "Neg": (np.negative, {}),
    "Pow": (np.power, {}),
    "Reciprocal": (np.reciprocal, {}),
    "Relu": (_relu, {}),
    "Selu": (_selu, {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}),
    "Shrink": (_shrink, {"bias": 0.0, "lambd": 0.5}),
    "Sigmoid": (_sigmoid, {}),
    "Sign": (np.sign, {}),
    "Sin": (np.sin, {}),
    "Softplus": (_softplus, {}),
    "Softsign": (_softsign, {}),
    "Sqrt": (np.sqrt, {}),
    "Sub": (np.subtract, {}),
    "Tanh": (np.tanh, {}),
    "ThresholdedRelu": (_thresholded_relu, {"alpha": 1.0}),
    "Where": (np.where, {}),
}


def write_step(name: str, operands: Sequence[str | float]) -> str | None:
    """Return the text of a step with its operands and parameters; None if it is too long.

    Operands are the texts of steps, ``"x"``, or finite numbers; parameters are finite numbers.
    """
    texts = [each if isinstance(each, str) else repr(float(each)) for each in operands]
    text = f"{name}({', '.join(texts)})"
    return text if len(text) <= _MAX_LETTERS else None


def parse_step(text: str) -> tuple[str, list[str]] | float | None:
    """Return the name and the operands of an expression's outermost step.

    If the expression is a number, return the number; if it is `x`, return None.
    """
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.Name):
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id, [ast.unparse(each) for each in node.args]
    return float(ast.literal_eval(node))


def evaluate(text: str, x: _Numbers) -> _Numbers:
    """Return the values of an expression at `x`, float64 of any shape; inf or NaN if undefined."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(_value(ast.parse(text, mode="eval").body, x), x.shape)


def _value(node: ast.expr, x: _Numbers) -> _Numbers | float:
    """Return the value of a parsed expression for numbers x."""
    if isinstance(node, ast.Name):
        return x
    if not isinstance(node, ast.Call):
        return float(ast.literal_eval(node))
    assert isinstance(node.func, ast.Name)
    step, _parameters = STEPS[node.func.id]
    return step(*(_value(each, x) for each in node.args))
