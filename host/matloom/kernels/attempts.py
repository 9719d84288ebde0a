"""Tries networks on a reference interpreter, each in a separate process.

    python attempts.py PACKAGE

imports the interpreter once, reads pickled requests from standard input until it ends, and answers
each on standard output. The libraries print their reasons to stderr, and some unsupported networks
crash them, so each request is served by a fork. The program imports nothing from Matloom except its
neighbours, by their paths, so that it starts quickly.
"""

import ctypes
import importlib
import importlib.util
import os
import pickle
import resource
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Seconds of a first run above which a network is not tried a second time.
_LONG_RUN_SECONDS = 0.1
#: Maximum seconds that a network, which may be damaged, may keep a library busy.
_MAX_SECONDS = 300
#: CPU seconds allowed for ONNX's libraries, because a loop's body may repeat 2**63 times, and bytes
#: of allowed memory that allow one second more.
_LONGEST_ONNX, _BYTES_PER_SECOND = 10, 256 << 20
#: Bytes allowed for ONNX's libraries with any network, and how many times the sizes of its file and
#: of its values (`Cut.arena`) are added: constants exist as read, as used, and in between.
_MEMORY, _FILE_TIMES, _VALUE_TIMES = 512 << 20, 8, 4
#: Share of the machine's memory that a network may use.
_MOST_MEMORY = 0.75
#: Fill of fresh memory in two runs that are compared: every bit differs.
_FILLS = (0x55, 0xAA)
#: Inputs of a trial: random numbers, or the lowest or highest values of integer types.
_RANDOM, _LOWEST, _HIGHEST = "random", "lowest", "highest"
#: Bytes of the largest integers that get random inputs; larger types hold sizes or indices.
_WORD_BYTES = 2
#: glibc's identifier of the parameter that fills fresh memory (mallopt(3)).
_M_PERTURB = -6


def _libraries() -> Any:
    """Return the module `interpreters`, loaded by its path, without importing its package."""
    for name in ("onnx_sessions", "interpreters"):
        path, known = Path(__file__).with_name(f"{name}.py"), f"matloom.kernels.{name}"
        spec = importlib.util.spec_from_file_location(known, path)
        assert spec is not None
        assert spec.loader is not None
        # Registered under its full name, so that the next module finds it without the package.
        module = sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


_MODULE = _libraries()
_LIBRARIES, _CUT = _MODULE.LIBRARIES, _MODULE.Cut
_SESSIONS = sys.modules["matloom.kernels.onnx_sessions"]

_MODULES = {
    "tflite-micro": "tflite_micro.python.tflite_micro.runtime",
    "ai-edge-litert": "ai_edge_litert.interpreter",
    "onnxruntime": "onnxruntime",
    "onnx": "onnx.reference",
}

#: Signals that end a process after its time limit.
_TIMEOUT_SIGNALS = frozenset({signal.SIGALRM, signal.SIGXCPU})
_TOO_LONG = "it does not end in time"


def _limit_onnx(content: bytes, values: int) -> None:
    """Limit the memory and time of this process, by the sizes of an ONNX file and its values."""
    wanted = _MEMORY + _FILE_TIMES * len(content) + _VALUE_TIMES * values
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = min(wanted, int(_MOST_MEMORY * there))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    seconds = _LONGEST_ONNX + (most - _MEMORY) // _BYTES_PER_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, _MAX_SECONDS))


def _test_inputs(kinds: Sequence[tuple[tuple[int, ...], Any]], fill: int | str) -> list[Array]:
    """Return test inputs of these shapes and dtypes: all `fill`, or random, lowest or highest.

    Unless `fill` is a number, booleans and large integers are 1; floats are 1 unless random.
    """
    if isinstance(fill, int):
        return [np.full(shape, fill, dtype) for shape, dtype in kinds]
    draw = np.random.default_rng(0)
    values = []
    for shape, dtype in kinds:
        kind = np.dtype(dtype)
        if kind.kind == "f" and fill == _RANDOM:
            values.append(draw.standard_normal(shape).astype(kind))
        elif kind.kind not in "iu" or kind.itemsize > _WORD_BYTES:
            values.append(np.ones(shape, kind))
        else:
            ends = np.iinfo(kind)
            low = ends.max if fill == _HIGHEST else ends.min
            high = ends.min if fill == _LOWEST else ends.max
            values.append(draw.integers(low, high, shape, kind, endpoint=True))
    return values


def _load_twice(package: str, cut: Any) -> list[Any]:
    """Return a network loaded twice, in memory filled with different bytes; for ONNX, only once.

    Some kernels succeed without writing a result for types, options or shapes that they do not
    know: TensorFlow Lite Micro's comparisons of int16, its PACK without options, LiteRT's SUM of
    int16. Two runs then differ. Only glibc can fill memory; elsewhere, the network is loaded once.
    """
    fill = getattr(ctypes.CDLL(None), "mallopt", None)
    if package.startswith("onnx") or fill is None:
        return [_LIBRARIES[package](cut)]
    twins = []
    for byte in _FILLS:
        fill(_M_PERTURB, byte)
        twins.append(_LIBRARIES[package](cut))
    fill(_M_PERTURB, 0)
    return twins


def _find_refusal(package: str, cut: Any, inputs: Sequence[Array] | None) -> str:
    """Return why a network fails on `inputs`, or, if None, on test inputs; empty if it runs."""
    try:
        if inputs is not None:
            _LIBRARIES[package](cut).run(inputs)
            return ""
        twins = _load_twice(package, cut)
        kinds = twins[0].kinds()
    # Damage surfaces as any exception: TypeError, IndexError, UnicodeDecodeError.
    except Exception as error:
        return str(error) or type(error).__name__
    refusals = []
    # A model that loads there is sound; inputs that are sizes or indices may fail for their values.
    if package == "onnxruntime":
        refusals.append("")
    # Zeros and some random numbers are not valid divisors; ones are. Negative numbers have no
    # roots, and a zero point can make all but the highest negative.
    for fill in (0, _RANDOM, 1, _HIGHEST, _LOWEST):
        if fill not in (0, _RANDOM) and "" in refusals:
            break
        begin = time.monotonic()
        try:
            inputs = _test_inputs(kinds, fill)
            runs = [[array.tobytes() for array in twin.run(inputs)] for twin in twins]
            refusals.append("" if runs[0] == runs[-1] else "it does not write all of its outputs")
        except (MemoryError, RuntimeError, ValueError) as error:
            # LiteRT checks each run: computed sizes may fit.
            late = cut.has_run_time_shapes and package == "ai-edge-litert"
            refusals.append("" if late else str(error) or type(error).__name__)
        if not refusals[-1] and time.monotonic() - begin > _LONG_RUN_SECONDS:
            break
    return "" if "" in refusals else refusals[0]


def _run_in_fork(work: Callable[[], bytes]) -> tuple[int, bytes, str]:
    """Run `work` in a forked process; return its exit status, its result, and its stderr.

    The status is the one that `os.waitpid` returns.
    """
    with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            signal.alarm(_MAX_SECONDS)
            os.dup2(words.fileno(), 2)
            with open(answer.fileno(), "wb", closefd=False) as stream:
                stream.write(work())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        words.seek(0)
        return status, answer.read(), words.read().decode(errors="replace")


def _is_timeout(status: int) -> bool:
    """Return whether an exit status (`os.waitpid`) is of a process that took too long."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in _TIMEOUT_SIGNALS


def _find_refusal_in_fork(package: str, cut: Any, inputs: Sequence[Array] | None) -> str:
    """Return `_find_refusal`, called in a fork; prefer a reason that the library prints."""

    def attempt() -> bytes:
        """Return the reason of the refusal, encoded; empty if the network runs."""
        if package.startswith("onnx"):
            _limit_onnx(cut.content, cut.arena)
        return _find_refusal(package, cut, inputs).encode()

    status, refusal, words = _run_in_fork(attempt)
    if _is_timeout(status):
        return _TOO_LONG
    if status != 0:
        return "the library crashes"
    if not refusal:
        return ""
    lines = [*words.splitlines(), *refusal.decode(errors="replace").splitlines()]
    return next((line.strip() for line in lines if line.strip()), "it gives no reason")


def _tensor_shapes(
    content: bytes, input_shapes: dict[int, tuple[int, ...]], wanted_values: Sequence[int]
) -> dict[str, Any]:
    """Return the tensors' shapes for given input shapes, and some tensors' values on zeros."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Optimised kernels: shapes do not depend on how values are computed.
    interpreter = Interpreter(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    for number, shape in input_shapes.items():
        interpreter.resize_tensor_input(number, shape)
    interpreter.allocate_tensors()
    if wanted_values:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
        interpreter.invoke()
    return {
        "shapes": {
            detail["index"]: detail["shape"].tolist() for detail in interpreter.get_tensor_details()
        },
        "values": {number: interpreter.get_tensor(number) for number in wanted_values},
    }


def _output_shapes(package: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the shapes of a network's outputs when run on zeros, or on ones if that fails."""
    if package.startswith("onnx"):
        _limit_onnx(request["content"], request["arena"])
    library = _LIBRARIES[package](_CUT(**request))
    kinds = library.kinds()
    try:
        made = library.run([np.zeros(shape, dtype) for shape, dtype in kinds])
    # Zeros may be invalid as sizes or divisors; libraries raise different errors for them.
    except Exception:
        made = library.run([np.ones(shape, dtype) for shape, dtype in kinds])
    return {"shapes": [array.shape for array in made]}


def _optimise(content: bytes, values: int) -> dict[str, bytes]:
    """Return ONNX Runtime's optimised model, and a variant with integers wherever possible."""
    _limit_onnx(content, values)
    return {name: _SESSIONS.optimise_onnx(content, name) for name in ("own", "integers")}


def _pickle(work: Callable[[], dict[str, Any]]) -> bytes:
    """Return the pickled result of `work`; if it fails, of its error message as a refusal."""
    try:
        answer = work()
    # A damaged file, as in `_find_refusal`.
    except Exception as error:
        answer = {"refusal": next(iter(str(error).strip().splitlines()), type(error).__name__)}
    return pickle.dumps(answer)


def _serve(package: str, kind: str, request: Any) -> bytes:
    """Return the pickled answer to a request ("refusals", "shapes", ...); empty after a crash."""
    if kind == "refusals":
        return pickle.dumps(
            [_find_refusal_in_fork(package, _CUT(**cut), inputs) for cut, inputs in request]
        )
    if kind == "shapes":
        status, answer, _ = _run_in_fork(lambda: _pickle(lambda: _tensor_shapes(*request)))
    elif kind == "optimise":
        status, answer, _ = _run_in_fork(lambda: _pickle(lambda: _optimise(*request)))
    else:
        status, answer, _ = _run_in_fork(lambda: _pickle(lambda: _output_shapes(package, request)))
    if _is_timeout(status):
        return pickle.dumps({"refusal": _TOO_LONG})
    return answer if status == 0 else b""


def _main(package: str) -> None:
    """Answer requests from standard input, with a package's interpreter, until it ends."""
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # The libraries write to standard output, too.
    os.dup2(2, 1)
    # Imported once, for all forks.
    importlib.import_module(_MODULES[package])
    while head := source.read(8):
        (size,) = struct.unpack("<Q", head)
        answer = _serve(package, *pickle.loads(source.read(size)))
        target.write(struct.pack("<Q", len(answer)) + answer)
        target.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
