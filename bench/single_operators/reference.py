"""TensorFlow Lite Micro and LiteRT in a process of their own, which a file may end.

    python -m single_operators.reference

reads pickled requests from standard input and answers on standard output: for each interpreter the
outputs of every call, or the sentence with which it refuses. The parent starts another process
where one dies, and takes the death for a refusal.
"""

import os
import pickle
import selectors
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answer", "References"]

#: Seconds that an interpreter may take for a file of one operator.
_PATIENCE = 30

_Arrays = list[NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an interpreter made of a file: outputs of each call in order, or why there are none."""

    calls: tuple[_Arrays, ...] = ()
    refusal: str = ""

    @property
    def ran(self) -> bool:
        """Whether there are outputs."""
        return not self.refusal


class References:
    """Both interpreters, in a process that is replaced when it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "References":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def ask(self, interpreter: str, content: bytes, calls: list[_Arrays]) -> Answer:
        """Return the answer of ``tflm`` or ``litert`` to a file, on inputs in the file's order."""
        process = self._process or self._start()
        assert process.stdin is not None
        request = pickle.dumps((interpreter, content, calls))
        try:
            process.stdin.write(struct.pack("<I", len(request)) + request)
            process.stdin.flush()
            kind, made = pickle.loads(self._answer(process))
        except (EOFError, BrokenPipeError, TimeoutError) as error:
            self._end()
            return Answer(refusal=f"the process ends: {type(error).__name__}")
        return Answer(calls=tuple(made)) if kind == "ran" else Answer(refusal=made)

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        (size,) = struct.unpack("<I", self._read(process, 4))
        return self._read(process, size)

    def _read(self, process: subprocess.Popen[bytes], size: int) -> bytes:
        assert process.stdout is not None
        found = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            while len(found) < size:
                if not waiting.select(_PATIENCE):
                    raise TimeoutError
                part = os.read(process.stdout.fileno(), size - len(found))
                if not part:
                    raise EOFError
                found += part
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        bench = Path(__file__).parents[1]
        known = os.environ.get("PYTHONPATH", "")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "single_operators.reference"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": f"{bench}{os.pathsep}{known}"},
        )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _tflm(content: bytes, calls: list[_Arrays]) -> list[_Arrays]:
    from tflite_micro.python.tflite_micro import runtime

    model = runtime.schema_fb.ModelT.InitFromObj(runtime.schema_fb.Model.GetRootAs(content, 0))
    (graph,) = model.subgraphs
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=2**22)
    found = []
    for arrays in calls:
        for at, array in enumerate(arrays):
            interpreter.set_input(array, at)
        interpreter.invoke()
        found.append([np.array(interpreter.get_output(at)) for at in range(len(graph.outputs))])
    return found


def _litert(content: bytes, calls: list[_Arrays]) -> list[_Arrays]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    given = [detail["index"] for detail in interpreter.get_input_details()]
    made = [detail["index"] for detail in interpreter.get_output_details()]
    found = []
    for arrays in calls:
        for number, array in zip(given, arrays, strict=True):
            interpreter.set_tensor(number, array)
        interpreter.invoke()
        found.append([np.array(interpreter.get_tensor(number)) for number in made])
    return found


def _serve() -> None:
    """Answer requests until there are no more."""
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # The libraries write to standard output, too.
    os.dup2(2, 1)
    while head := source.read(4):
        interpreter, content, calls = pickle.loads(source.read(*struct.unpack("<I", head)))
        run = _tflm if interpreter == "tflm" else _litert
        try:
            answer: tuple[str, Any] = ("ran", run(content, calls))
        except Exception as error:
            line = (str(error).strip().splitlines() or [""])[-1]
            answer = ("refused", f"{type(error).__name__}: {line}")
        data = pickle.dumps(answer)
        target.write(struct.pack("<I", len(data)) + data)
        target.flush()


if __name__ == "__main__":
    _serve()
