"""Runs one random file on three runtimes, and judges Matloom's result."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from single_operators.builder import Builder, input_arrays
from single_operators.model_file import FileNetwork, write_file
from single_operators.oddities import make_odd
from single_operators.operators import draw_operator
from single_operators.reference import Answer, References


@dataclass(frozen=True, kw_only=True)
class Case:
    """A random file, made from a seed; `plain` is its network before oddities are added."""

    seed: int
    operator: str
    oddities: tuple[str, ...]
    plain: FileNetwork
    network: FileNetwork
    content: bytes
    calls: list[list[NDArray[Any]]]

    def __str__(self) -> str:
        types = "/".join(self.network.tensors[at].dtype for at in self.network.operators[0].inputs)
        return f"seed {self.seed}: {self.operator} {types} ({', '.join(self.oddities) or 'plain'})"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome of a case: ``equal``, ``refused`` (as by both interpreters), or a failure.

    ``alone`` means that only Matloom runs the file, so there is nothing to compare with.

    Failures are ``wrong`` (other numbers than the interpreter that decides), ``refuses`` (although
    an interpreter runs the file) and ``raw`` (an exception that is not a message of the project).
    """

    case: Case
    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether the outcome is a failure."""
        return self.kind not in ("alone", "equal", "refused")

    def __str__(self) -> str:
        return f"{self.case}: {self.kind} {self.detail}".rstrip()


def draw_case(seed: int, operator: str | None = None, *, odd: bool = True) -> Case:
    """Return the random file of a seed: with this operator, and with oddities if `odd`."""
    builder = Builder(seed)
    name, network = draw_operator(builder, operator)
    plain = network
    oddities: tuple[str, ...] = ()
    if odd:
        oddities, network = make_odd(network, builder.random)
    return Case(
        seed=seed,
        operator=name,
        oddities=oddities,
        plain=plain,
        network=network,
        content=write_file(network),
        calls=input_arrays(network, seed),
    )


def judge(case: Case, references: References, config: str = "nano") -> Verdict:
    """Run a file on all three runtimes; return the verdict on Matloom's result.

    It must equal that of an interpreter that runs the file; otherwise, Matloom must refuse the file
    with one sentence.
    """
    ours = references.ask(f"matloom:{config}", case.content, case.calls)
    if ours.raw:
        return Verdict(case=case, kind="raw", detail=ours.refusal)
    answers = {
        "tflm": references.ask("tflm", _with_constants_inside(case), case.calls),
        "litert": references.ask("litert", case.content, case.calls),
    }
    ran = {name: each for name, each in answers.items() if each.ran and not _limits_unset(case)}
    misread = _scales_ignored(case) or _scales_overflow(case)
    misread = misread or _axes_misread(case, answers, references)
    if misread and "litert" not in ran:
        ran = {}
    if not ours.ran:
        if ran:
            return Verdict(case=case, kind="refuses", detail=f"{ours.refusal} [{', '.join(ran)}]")
        return Verdict(case=case, kind="refused", detail=ours.refusal)
    if not ran:
        why = "; ".join(f"{name}: {each.refusal or 'misreads'}" for name, each in answers.items())
        return Verdict(case=case, kind="alone", detail=why)
    magnitudes = [_limited_magnitude(case, arrays) for arrays in case.calls]
    differences = {name: _difference(ours, answer, magnitudes) for name, answer in ran.items()}
    wanted = {"litert" if misread or "tflm" not in ran else "tflm"}
    if _ratio_undefined(case):
        wanted = {*ran}
    if not all(differences[name] for name in wanted):
        return Verdict(case=case, kind="equal")
    shown = "; ".join(f"{name}: {text or 'equal'}" for name, text in differences.items())
    return Verdict(case=case, kind="wrong", detail=shown)


def verdicts(seeds: range, operator: str | None, odd: bool, config: str) -> list[Verdict]:
    """Return the verdicts on the files of some seeds; worker processes can import this function."""
    with References() as references:
        return [judge(draw_case(seed, operator, odd=odd), references, config) for seed in seeds]


def _with_constants_inside(case: Case) -> bytes:
    """Return the bytes of a case's file with its constants in the flatbuffer instead of after it.

    TensorFlow Lite Micro takes constants outside of the flatbuffer for empty ones.
    """
    return write_file(replace(case.network, outside=False))


def _scales_ignored(case: Case) -> bool:
    """Return whether TensorFlow Lite Micro uses an input's first scale for all channels.

    Its DEQUANTIZE does.
    """
    tensors, (operator,) = case.network.tensors, case.network.operators
    return operator.name == "DEQUANTIZE" and len(tensors[operator.inputs[0]].scales) > 1


def _scales_overflow(case: Case) -> bool:
    """Return whether TensorFlow Lite Micro's product of two scales exceeds float32.

    Its MUL multiplies them before it widens them to float64, unlike LiteRT's.
    """
    return _scale_of_products(case) > float(np.finfo(np.float32).max)


def _ratio_undefined(case: Case) -> bool:
    """Return whether the ratio of a MUL's scales leaves its results undefined.

    From 2**31 on, kernels shift 32-bit products by as many bits as these have, or more, which C
    leaves undefined. One of the interpreters runs such a file, with whatever results it has.
    """
    (operator,) = case.network.operators
    output = next(iter(case.network.tensors[operator.outputs[0]].scales), 0.0)
    return _scale_of_products(case) >= 2**31 * output > 0


def _scale_of_products(case: Case) -> float:
    """Return the product of the scales of a MUL's inputs; 0 for other operators."""
    tensors, (operator,) = case.network.tensors, case.network.operators
    if operator.name != "MUL":
        return 0.0
    return math.prod(each for at in operator.inputs for each in tensors[at].scales[:1])


def _axes_misread(case: Case, answers: dict[str, Answer], references: References) -> bool:
    """Return whether the shapes that a file declares for outputs mislead TensorFlow Lite Micro.

    It locates elements by the declared shape, where LiteRT computes shapes from the inputs. It is
    not misled if it gives the same bytes for a file that declares the shapes that LiteRT computes,
    or those before an oddity if LiteRT refuses the file.
    """
    network, micro, litert = case.network, answers["tflm"], answers["litert"]
    declared = [network.tensors[number].shape for number in network.outputs]
    shapes = [case.plain.tensors[number].shape for number in network.outputs]
    if litert.ran:
        shapes = [each.shape for each in litert.calls[0]]
    if not micro.ran or shapes == declared:
        return False
    if not litert.ran and list(map(math.prod, shapes)) != list(map(math.prod, declared)):
        return False
    tensors = list(network.tensors)
    for number, shape in zip(network.outputs, shapes, strict=True):
        tensors[number] = replace(tensors[number], shape=shape)
    right = write_file(replace(network, tensors=tuple(tensors), outside=False))
    answer = references.ask("tflm", right, case.calls)
    return not answer.ran or bool(_difference(micro, answer, [0.0] * len(case.calls)))


def _limits_unset(case: Case) -> bool:
    """Return whether both interpreters limit a pool by uninitialised numbers on their stack.

    Their kernels continue when a limit divided by the output's scale exceeds 32 bits, or is no
    number.
    """
    (operator,) = case.network.operators
    if operator.name not in ("AVERAGE_POOL_2D", "MAX_POOL_2D") or operator.options is None:
        return False
    # By the schema's numbers of RELU, RELU_N1_TO_1 and RELU6.
    limit = {1: 0.0, 2: 1.0, 3: 6.0}.get(operator.options[1]["fusedActivationFunction"])
    output = case.network.tensors[operator.outputs[0]]
    if output.dtype == "float32" or limit is None:
        return False
    scale = output.scales[0] if output.scales else 0.0
    return scale == 0 or limit / scale >= 2**31


def _limited_magnitude(case: Case, arrays: list[NDArray[Any]]) -> float:
    """Return the largest product of two float32 operands whose sums an activation limits, else 0.

    Sums of such products differ by rounding, which limited results do not show.
    """
    (operator,) = case.network.operators
    if not operator.options or not operator.options[1].get("fusedActivationFunction"):
        return 0.0
    given = dict(zip(case.network.inputs, arrays, strict=True))
    operands = [given.get(at, case.network.tensors[at].data) for at in operator.inputs[:2]]
    floats = [each for each in operands if each is not None and each.dtype.kind == "f"]
    return math.prod(float(np.abs(each).max(initial=0)) for each in floats) if floats else 0.0


def _difference(ours: Answer, theirs: Answer, magnitudes: list[float]) -> str:
    """Return a description of the first difference between two answers; "" if there is none.

    Floats may differ by rounding, relative to the results and, in each call, to an item of
    `magnitudes`.
    """
    for call, (mine, other) in enumerate(zip(ours.calls, theirs.calls, strict=True)):
        for at, (found, wanted) in enumerate(zip(mine, other, strict=True)):
            text = _first_difference(found, wanted, magnitudes[call])
            if text:
                return f"call {call}, output {at}: {text}"
    return ""


def _first_difference(actual: NDArray[Any], expected: NDArray[Any], magnitude: float) -> str:
    """Return a description of where two arrays differ beyond rounding; "" if they do not."""
    if actual.size != expected.size or actual.dtype != expected.dtype:
        return f"{actual.dtype} {actual.shape}, not {expected.dtype} {expected.shape}"
    actual, expected = actual.reshape(-1), expected.reshape(-1)
    if expected.dtype.kind == "f":
        finite = expected[np.isfinite(expected)]
        room = 1e-5 * float(np.abs(finite).max(initial=magnitude))
        wrong = ~np.isclose(actual, expected, rtol=1e-5, atol=room, equal_nan=True)
    else:
        wrong = actual != expected
    if not wrong.any():
        return ""
    at = int(np.argmax(wrong))
    return f"{int(wrong.sum())} of {wrong.size}, at {at} {actual[at]}, not {expected[at]}"
