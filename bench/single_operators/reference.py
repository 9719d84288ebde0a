"""Runs TensorFlow Lite Micro, LiteRT and Matloom in a process that a file may crash.

    python -m single_operators.reference

Reads pickled requests from standard input and answers on standard output: the outputs of every
call, or the sentence with which a runtime refuses the file. The parent starts another process when
one dies, and reports it.
"""

import ctypes
import os
import pickle
import selectors
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Seconds that a runtime may take for a file of one operator: most take a tenth, if no other work
#: has the machine.
_TIME_LIMIT = 900

_Arrays = list[NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Result of a runtime on a file: the outputs of each call, or a sentence that says why not.

    `raw` says that the run ended with a crash, or with an exception that is not meant for users.
    """

    calls: tuple[_Arrays, ...] = ()
    refusal: str = ""
    raw: bool = False

    @property
    def ran(self) -> bool:
        """Whether the runtime ran the file, so that there are outputs."""
        return not self.refusal


class References:
    """All three runtimes, in a child process that is restarted when it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "References":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def ask(self, runtime: str, content: bytes, calls: list[_Arrays]) -> Answer:
        """Run a file on a runtime, with the inputs of each of `calls`; return its answer.

        `runtime` is ``tflm``, ``litert``, or ``matloom:`` and a configuration.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        request = pickle.dumps((runtime, content, calls))
        try:
            process.stdin.write(struct.pack("<I", len(request)) + request)
            process.stdin.flush()
            answer: Answer = pickle.loads(self._answer(process))
        except (EOFError, BrokenPipeError, TimeoutError) as error:
            self._end()
            return Answer(refusal=f"the process ends: {type(error).__name__}", raw=True)
        return answer

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return the bytes of the next answer, which follow their number."""
        (size,) = struct.unpack("<I", self._read(process, 4))
        return self._read(process, size)

    def _read(self, process: subprocess.Popen[bytes], size: int) -> bytes:
        """Return `size` bytes from the child; raise TimeoutError or EOFError without them."""
        assert process.stdout is not None
        found = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            while len(found) < size:
                if not waiting.select(_TIME_LIMIT):
                    raise TimeoutError
                part = os.read(process.stdout.fileno(), size - len(found))
                if not part:
                    raise EOFError
                found += part
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the child process with the runtimes; return it."""
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
        """Kill the child process, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _repeatable(
    run: Callable[[bytes, list[_Arrays]], list[_Arrays]], content: bytes, calls: list[_Arrays]
) -> list[_Arrays]:
    """Return the outputs of `run`; raise if they depend on previous contents of memory.

    Kernels of both interpreters return silently, without a result, for types or options that they
    do not support.
    """
    fill = ctypes.CDLL(None).mallopt
    runs = []
    for byte in (0x0F, 0xF0):
        # M_PERTURB of mallopt(3): what fresh memory is filled with.
        fill(-6, byte)
        runs.append(run(content, calls))
    fill(-6, 0)
    for one, other in zip(*runs, strict=True):
        if any(a.tobytes() != b.tobytes() for a, b in zip(one, other, strict=True)):
            raise RuntimeError("the outputs depend on what memory held before")
    return runs[0]


def _tflm(content: bytes, calls: list[_Arrays]) -> list[_Arrays]:
    """Return the outputs of each call of a file on TensorFlow Lite Micro."""
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
    """Return the outputs of each call of a file on LiteRT's reference kernels."""
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


def _matloom(content: bytes, calls: list[_Arrays], config: str) -> list[_Arrays]:
    """Return the outputs of each call of a file on Matloom's functional model."""
    import matloom
    from matloom import frontend

    program = matloom.compile(frontend.load(content), config, check="none")
    found = []
    with matloom.load(program, device="model") as session:
        for arrays in calls:
            pairs = zip(program.inputs, arrays, strict=True)
            outputs = session.run({info.name: array for info, array in pairs})
            found.append([np.asarray(outputs[info.name]) for info in program.outputs])
    return found


def _run(runtime: str, content: bytes, calls: list[_Arrays]) -> list[_Arrays]:
    """Return the outputs of each call on a runtime: ``tflm``, ``litert`` or ``matloom:CONFIG``."""
    if runtime == "tflm":
        return _repeatable(_tflm, content, calls)
    if runtime == "litert":
        return _repeatable(_litert, content, calls)
    return _matloom(content, calls, runtime.removeprefix("matloom:"))


def _answer_of(runtime: str, content: bytes, calls: list[_Arrays]) -> Answer:
    """Return a runtime's answer to a file: outputs, or the error message as a refusal."""
    from matloom.errors import UserError

    try:
        return Answer(calls=tuple(_run(runtime, content, calls)))
    except UserError as error:
        text = str(error)
        # A sentence is one line.
        return Answer(refusal=f"{type(error).__name__}: {text}", raw="\n" in text)
    except Exception as error:
        line = (str(error).strip().splitlines() or [""])[-1]
        return Answer(refusal=f"{type(error).__name__}: {line}", raw=True)


def _serve() -> None:
    """Answer requests from standard input until it ends."""
    from matloom.kernels.probe import keep_processes

    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # The libraries write to standard output, too.
    os.dup2(2, 1)
    with keep_processes():
        while head := source.read(4):
            data = pickle.dumps(_answer_of(*pickle.loads(source.read(*struct.unpack("<I", head)))))
            target.write(struct.pack("<I", len(data)) + data)
            target.flush()


if __name__ == "__main__":
    # Pickled answers name the class by its module, which is no script.
    from single_operators import reference

    reference._serve()
