"""The reference interpreters: TensorFlow Lite Micro, and LiteRT with its reference kernels.

Run as a program, this file tries networks, each in a process of its own: the libraries write their
reasons to stderr, and some networks that they do not take end the process. It imports nothing of
Matloom, so that it starts quickly.
"""

import ctypes
import importlib
import json
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LIBRARIES", "Cut", "Library"]

Array = npt.NDArray[Any]

#: Seconds of a first run above which a network is not tried a second time.
_LONG = 0.1
#: Seconds that a damaged network may keep a library busy.
_LONGEST = 300
#: What fresh memory holds in two runs that are compared: no bit is the same in both.
_FILLS = (0x55, 0xAA)
#: glibc's number of the parameter that fills fresh memory (mallopt(3)).
_M_PERTURB = -6


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A model file of the operators that are to run, and what runs it.

    Members
    -------
    arena:
        Bytes of memory for its tensors.
    inputs, outputs:
        Their numbers.
    """

    content: bytes
    arena: int
    inputs: int
    outputs: int


class Library:
    """One network on an interpreter, which may remember from run to run.

    Errors
    ------
    ImportError
        The library is not installed.
    RuntimeError, ValueError
        It does not take the network, or a run fails.
    """

    def __init__(self, cut: Cut) -> None:
        self.cut = cut

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return shape and dtype of each input."""
        raise NotImplementedError

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of one run."""
        raise NotImplementedError


class _Micro(Library):
    """TensorFlow Lite Micro: every tensor has the shape that the file says."""

    def __init__(self, cut: Cut) -> None:
        from tflite_micro.python.tflite_micro import runtime

        super().__init__(cut)
        self._interpreter = runtime.Interpreter.from_bytes(cut.content, arena_size=cut.arena)

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        details = [self._interpreter.get_input_details(at) for at in range(self.cut.inputs)]
        return [(tuple(detail["shape"]), detail["dtype"]) for detail in details]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        for at, array in enumerate(inputs):
            self._interpreter.set_input(array, at)
        self._interpreter.invoke()
        return [self._interpreter.get_output(at) for at in range(self.cut.outputs)]


class _Lite(Library):
    """LiteRT: shapes follow from the inputs."""

    def __init__(self, cut: Cut) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        super().__init__(cut)
        self._interpreter = Interpreter(
            model_content=cut.content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        self._interpreter.allocate_tensors()

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        details = self._interpreter.get_input_details()
        return [(tuple(detail["shape"]), detail["dtype"]) for detail in details]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        details = self._interpreter.get_input_details()
        shapes = [tuple(detail["shape"]) for detail in details]
        if shapes != [array.shape for array in inputs]:
            for detail, array in zip(details, inputs, strict=True):
                self._interpreter.resize_tensor_input(detail["index"], array.shape)
            self._interpreter.allocate_tensors()
        for detail, array in zip(details, inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return list(map(self._result, self._interpreter.get_output_details()))

    def _result(self, detail: dict[str, Any]) -> Array:
        # The library refuses to copy a tensor of no elements.
        if 0 in detail["shape"]:
            return np.empty(detail["shape"], detail["dtype"])
        found: Array = self._interpreter.get_tensor(detail["index"])
        return found


#: By the name of the package that one comes with.
LIBRARIES: dict[str, Callable[[Cut], Library]] = {"tflite-micro": _Micro, "ai-edge-litert": _Lite}

_MODULES = {
    "tflite-micro": "tflite_micro.python.tflite_micro.runtime",
    "ai-edge-litert": "ai_edge_litert.interpreter",
}


def _values(kinds: Sequence[tuple[tuple[int, ...], Any]], *, random: bool) -> list[Array]:
    """Return zeros for inputs; or numbers over their types' ranges, ones for what may be a size."""
    if not random:
        return [np.zeros(shape, dtype) for shape, dtype in kinds]
    draw = np.random.default_rng(0)
    values = []
    for shape, dtype in kinds:
        kind = np.dtype(dtype)
        if kind.kind == "f":
            values.append(draw.standard_normal(shape).astype(kind))
        elif kind.kind == "b" or kind.itemsize > 2:
            values.append(np.ones(shape, kind))
        else:
            ends = np.iinfo(kind)
            values.append(draw.integers(ends.min, ends.max, shape, kind, endpoint=True))
    return values


def _twins(package: str, cut: Cut) -> list[Library]:
    """Return a library twice, in memory that held other bytes before; LiteRT's once.

    Some kernels of TensorFlow Lite Micro return without a word, and without a result, for types,
    options or shapes that they do not know: comparisons of int16, PACK without options. Only glibc
    can fill memory, so elsewhere nothing differs.
    """
    fill = getattr(ctypes.CDLL(None), "mallopt", None)
    if package != "tflite-micro" or fill is None:
        return [LIBRARIES[package](cut)]
    twins = []
    for byte in _FILLS:
        fill(_M_PERTURB, byte)
        twins.append(LIBRARIES[package](cut))
    fill(_M_PERTURB, 0)
    return twins


def _attempt(package: str, cut: Cut, given: Sequence[Array] | None) -> str:
    """Return why a library does not run a network; nothing where it does on some inputs."""
    try:
        if given is not None:
            LIBRARIES[package](cut).run(given)
            return ""
        twins = _twins(package, cut)
        kinds = twins[0].kinds()
    # A damaged file is found out by whatever meets it: TypeError, IndexError, UnicodeDecodeError.
    except Exception as error:
        return str(error) or type(error).__name__
    refusals = []
    for random in (False, True):
        inputs = _values(kinds, random=random)
        begin = time.monotonic()
        try:
            runs = [[array.tobytes() for array in twin.run(inputs)] for twin in twins]
            refusals.append("" if runs[0] == runs[-1] else "it does not write all of its outputs")
        except (RuntimeError, ValueError) as error:
            refusals.append(str(error) or type(error).__name__)
        if not refusals[-1] and time.monotonic() - begin > _LONG:
            break
    return "" if "" in refusals else refusals[0]


def _apart(package: str, cut: Cut, given: Sequence[Array] | None) -> str:
    """Return what `_attempt` does, of a process of its own; a library's own words come first."""
    with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            signal.alarm(_LONGEST)
            os.dup2(words.fileno(), 2)
            os.write(answer.fileno(), _attempt(package, cut, given).encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            return f"it does not end within {_LONGEST} s"
        if status != 0:
            return "the library crashes"
        answer.seek(0)
        refusal = answer.read().decode(errors="replace")
        if not refusal:
            return ""
        words.seek(0)
        lines = [*words.read().decode(errors="replace").splitlines(), *refusal.splitlines()]
        return next((line.strip() for line in lines if line.strip()), "it gives no reason")


def _shapes(
    content: bytes, given: dict[int, tuple[int, ...]], wanted: Sequence[int]
) -> dict[str, Any]:
    """Return the tensors' shapes where inputs have these, and the values of some tensors."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Optimised kernels: shapes do not depend on how values are computed.
    interpreter = Interpreter(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    for number, shape in given.items():
        interpreter.resize_tensor_input(number, shape)
    interpreter.allocate_tensors()
    if wanted:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
        interpreter.invoke()
    return {
        "shapes": {
            detail["index"]: detail["shape"].tolist() for detail in interpreter.get_tensor_details()
        },
        "values": {number: interpreter.get_tensor(number) for number in wanted},
    }


def _resize(content: bytes, given: dict[int, tuple[int, ...]], wanted: Sequence[int]) -> None:
    """Write what `_shapes` returns, or the library's refusal, to standard output."""
    try:
        answer: dict[str, Any] = _shapes(content, given, wanted)
    # Of a damaged file, as in `_attempt`.
    except Exception as error:
        answer = {"refusal": next(iter(str(error).strip().splitlines()), type(error).__name__)}
    sys.stdout.buffer.write(pickle.dumps(answer))


def _main() -> None:
    package, attempts = pickle.load(sys.stdin.buffer)
    if package == "shapes":
        _resize(*attempts)
        return
    # Once, for all processes that follow.
    importlib.import_module(_MODULES[package])
    print(json.dumps([_apart(package, Cut(**cut), given) for cut, given in attempts]))


if __name__ == "__main__":
    _main()
