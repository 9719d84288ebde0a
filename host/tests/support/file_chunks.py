"""Chunks of the cases of `fuzz_files`: tasks that workers can import."""

import random
import resource
import signal
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from matloom.kernels.probe import keep_processes
from support.file_cases import networks, programs
from support.file_edits import FileParts, cut, edit_bytes, edit_structure
from support.file_runs import network_outcome, onnx_outcome, program_outcome
from support.onnx_cases import edit_onnx, onnx_files
from support.tflite_edits import edit_tflite, tables_of

__all__ = ["KINDS", "LIMIT_BYTES", "Chunk", "Found", "run_chunk"]

#: Seconds of a case, on a machine that does other work, too; bytes that the process may allocate
#: beyond what it begins with, and those of an interpreter's.
LIMIT_SECONDS, LIMIT_BYTES = 60, 1 << 30


#: By kind: the files, and what becomes of one.
KINDS = {
    "structured": (programs, program_outcome),
    "random": (programs, program_outcome),
    "tflite": (networks, network_outcome),
    "onnx": (onnx_files, onnx_outcome),
}


class TooSlowError(Exception):
    """A case exceeded its time limit."""


def _case(kind: str, seed: int, number: int) -> tuple[str, bytes]:
    """Return the name of the original and the edited file."""
    draw = random.Random(f"{kind} {seed} {number}")
    files = KINDS[kind][0]()
    name = draw.choice(sorted(files))
    data = files[name]
    if kind == "tflite":
        return name, edit_tflite(data, tables_of(data), draw)
    if kind == "onnx":
        return name, edit_onnx(data, draw)
    if kind == "structured":
        return name, edit_structure(FileParts.of(data), draw)
    return name, cut(data, draw) if draw.random() < 0.05 else edit_bytes(data, draw)


def _on_alarm(_signal: int, _frame: object) -> None:
    raise TooSlowError(f"a case must end within {LIMIT_SECONDS} s")


def _reset_peak() -> None:
    """Restart the measurement of `_peak`."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the largest memory use of this process since `_reset_peak`, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _own_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some cases of a seed, by their numbers."""

    kind: str
    seed: int
    numbers: range


@dataclass(kw_only=True)
class Found:
    """What became of cases.

    Members
    -------
    counts:
        Cases that ``ran``, or were ``refused``.
    failures:
        Sentences and tracebacks of those that failed.
    slowest, largest:
        Seconds and bytes of a case, each with its number.
    process_bytes:
        The largest process of an interpreter.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)
    process_bytes: int = 0

    @property
    def cases(self) -> int:
        """Number of cases."""
        return self.counts.total() + len(self.failures)

    def add(self, other: "Found") -> None:
        """Add what became of further cases."""
        self.counts += other.counts
        self.failures += other.failures
        self.slowest = max(self.slowest, other.slowest)
        self.largest = max(self.largest, other.largest)
        self.process_bytes = max(self.process_bytes, other.process_bytes)


def run_chunk(chunk: Chunk) -> Found:
    """Run cases under limits of memory and time, which this process keeps."""
    files, outcome = KINDS[chunk.kind]
    found = Found()
    with keep_processes():
        for data in files().values():
            outcome(data)
        limit = _own_bytes() + LIMIT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.signal(signal.SIGALRM, _on_alarm)
        for number in chunk.numbers:
            name, data = _case(chunk.kind, chunk.seed, number)
            signal.alarm(LIMIT_SECONDS)
            start = time.monotonic()
            _reset_peak()
            try:
                found.counts["ran" if outcome(data) is None else "refused"] += 1
            except Exception:  # `outcome` returns refusals; anything raised is a fault.
                end = "".join(traceback.format_exc().splitlines(keepends=True)[-7:])
                found.failures.append(f"case {number} of seed {chunk.seed} ({name}):\n{end}")
            signal.alarm(0)
            found.slowest = max(found.slowest, (time.monotonic() - start, number))
            found.largest = max(found.largest, (_peak(), number))
    found.process_bytes = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return found
