"""Asks a reference interpreter, in a separate process, which networks it can run."""

import hashlib
import os
import pickle
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matloom.ir.graph import Array
from matloom.kernels import interpreters
from matloom.kernels.interpreters import Cut

#: Number of results that `refusals` keeps, because a new process takes a good part of a second.
_MAX_CACHED = 1024
_known: OrderedDict[tuple[str, bytes], str] = OrderedDict()

_CRASH = "the library crashes"
_TOO_LONG = "it does not end in time"
#: Unlike running a script, this adds no folder to the search path of modules.
_PROGRAM = str(Path(interpreters.__file__).with_name("attempts.py"))
_COMMAND = f"import runpy; runpy.run_path({_PROGRAM!r}, run_name='__main__')"


def refusals(package: str, cuts: Sequence[Cut]) -> list[str]:
    """Return why an interpreter refuses each network; an empty string if it runs it.

    Results are cached. Networks that are not in the cache are tried together in one process.
    """
    keys = [(package, hashlib.sha256(cut.content).digest()) for cut in cuts]
    new = {key: cut for key, cut in zip(keys, cuts, strict=True) if key not in _known}
    if new:
        _known.update(
            zip(new, _find_refusals(package, [(cut, None) for cut in new.values()]), strict=True)
        )
    found = [_known[key] for key in keys]
    while len(_known) > _MAX_CACHED:
        _known.popitem(last=False)
    return found


def is_timeout(refusal: str) -> bool:
    """Return whether a refusal means that time ran out, so that no other interpreter is tried."""
    return refusal == _TOO_LONG


def failure_reason(package: str, cut: Cut, inputs: Sequence[Array]) -> str:
    """Return why a run on these inputs fails; an empty string if it succeeds."""
    (reason,) = _find_refusals(package, [(cut, inputs)])
    return reason


def tensor_shapes(
    content: bytes, input_shapes: Mapping[int, tuple[int, ...]], wanted_values: Sequence[int]
) -> tuple[dict[int, tuple[int, ...]], dict[int, Array]]:
    """Return the shapes of a network's tensors for given input shapes, from LiteRT.

    Also returns the values of the `wanted_values` tensors, by number, in a run on zeros.

    Raises
    ------
    ValueError
        LiteRT refuses the shapes or the network; the message is its reason.
    """
    answer = _processes.query(
        "ai-edge-litert", "shapes", (content, dict(input_shapes), list(wanted_values))
    )
    if answer is None:
        raise ValueError(_CRASH)
    if "refusal" in answer:
        raise ValueError(answer["refusal"])
    shapes = {number: tuple(shape) for number, shape in answer["shapes"].items()}
    return shapes, answer["values"]


def output_shapes(package: str, cut: Cut) -> list[tuple[int, ...]]:
    """Return the shapes of a network's outputs in a run on zeros, or on ones if that fails.

    Raises
    ------
    ValueError
        The interpreter refuses the network or the run; the message is its reason.
    """
    answer = _processes.query(package, "outputs", asdict(cut))
    if answer is None:
        raise ValueError(_CRASH)
    if "refusal" in answer:
        raise ValueError(answer["refusal"])
    return [tuple(shape) for shape in answer["shapes"]]


def optimise(content: bytes, values: int) -> tuple[bytes, bytes]:
    """Return ONNX Runtime's optimised model, and a variant with integers wherever possible.

    `values` is the size of the model's values in bytes, as in `Cut.arena`.

    Raises
    ------
    ValueError
        ONNX Runtime refuses the model; the message is its reason.
    """
    answer = _processes.query("onnxruntime", "optimise", (content, values))
    if answer is None:
        raise ValueError(_CRASH)
    if "refusal" in answer:
        raise ValueError(answer["refusal"])
    return answer["own"], answer["integers"]


def _find_refusals(
    package: str, attempts: Sequence[tuple[Cut, Sequence[Array] | None]]
) -> list[str]:
    """Return why an interpreter, in its own process, fails on each cut; empty if it does not."""
    request = [(asdict(cut), arrays) for cut, arrays in attempts]
    answers: list[str] | None = _processes.query(package, "refusals", request)
    return [_CRASH] * len(attempts) if answers is None else answers


class _Process:
    """A process with an interpreter, which answers requests until `end` is called."""

    def __init__(self, package: str) -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @property
    def ended(self) -> bool:
        """Whether the process has ended, as for lack of memory or by an interruption."""
        return self._running.poll() is not None

    def query(self, kind: str, request: object) -> Any:
        """Return the answer to a request; None if the process or the library crashed."""
        requests, answers = self._running.stdin, self._running.stdout
        assert requests is not None
        assert answers is not None
        content = pickle.dumps((kind, request))
        try:
            requests.write(struct.pack("<Q", len(content)) + content)
            requests.flush()
            (size,) = struct.unpack("<Q", answers.read(8))
        except (OSError, struct.error):
            return None
        return pickle.loads(answers.read(size)) if size else None

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        self._running.kill()
        self._running.communicate()


class _Processes:
    """Processes with interpreters, kept for reuse while `keepers` is not zero."""

    def __init__(self) -> None:
        self.keepers = 0
        self._kept: dict[tuple[str, int], _Process] = {}

    def query(self, package: str, kind: str, request: object) -> Any:
        """Return a process's answer to a request; None if it ended without one."""
        # A fork must not use its parent's processes, nor two threads the same one.
        key, answer = (package, os.getpid()), None
        process = self._kept.pop(key, None)
        if process is not None and process.ended:
            process.end()
            process = None
        process = process or _Process(package)
        try:
            answer = process.query(kind, request)
        finally:
            if answer is None or not self.keepers or self._kept.setdefault(key, process) != process:
                process.end()
        return answer

    def end(self) -> None:
        """End all processes that this process owns."""
        for key in [key for key in self._kept if key[1] == os.getpid()]:
            self._kept.pop(key).end()


_processes = _Processes()


@contextmanager
def keep_processes() -> Iterator[None]:
    """Let one process for each interpreter answer all requests within the block.

    Outside such a block, each request starts a process, which takes a good part of a second, and
    ends it: a program that compiles one network should not leave a process behind.
    """
    _processes.keepers += 1
    try:
        yield
    finally:
        _processes.keepers -= 1
        if not _processes.keepers:
            _processes.end()
