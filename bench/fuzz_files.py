"""Damages Program, TensorFlow Lite and ONNX files: each must be refused by one sentence, or run.

    python bench/fuzz_files.py structured --count 100000 --seed 1
    python bench/fuzz_files.py random --seconds 600
    python bench/fuzz_files.py tflite --count 20000
    python bench/fuzz_files.py onnx --count 20000

ONNX files are compiled, which makes ONNX Runtime try them in a process of its own, but not run.
Cases are numbered from the seed; a failure is printed with the command that repeats it.
"""

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from matloom.kernels.probe import kept_processes
from support.file_cases import networks, programs
from support.file_edits import FileParts, cut, edit_bytes, edit_structure
from support.file_runs import network_outcome, onnx_outcome, program_outcome
from support.onnx_cases import edit_onnx, onnx_files
from support.tflite_edits import edit_tflite, tables_of

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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--most-failures", type=int, default=20)
    return parser.parse_args()


def _campaign(options: argparse.Namespace) -> int:
    """Run cases until the count or the time is reached; return how many failed."""
    files, outcome = KINDS[options.kind]
    for data in files().values():
        outcome(data)
    limit = _own_bytes() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _on_alarm)
    begin, done, slowest, failures = time.monotonic(), 0, (0.0, -1), 0
    largest = (0, -1)
    found: Counter[str] = Counter()
    for number in range(options.first, options.first + options.count):
        name, data = _case(options.kind, options.seed, number)
        signal.alarm(LIMIT_SECONDS)
        start = time.monotonic()
        _reset_peak()
        try:
            found["ran" if outcome(data) is None else "refused"] += 1
        except Exception:
            failures += 1
            print(f"case {number} of seed {options.seed} ({name}):")
            print("".join(traceback.format_exc().splitlines(keepends=True)[-7:]), flush=True)
        signal.alarm(0)
        done += 1
        slowest = max(slowest, (time.monotonic() - start, number))
        largest = max(largest, (_peak(), number))
        if done % 1000 == 0:
            print(f"{done:,} cases, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if failures >= options.most_failures or time.monotonic() - begin > options.seconds:
            break
    print(
        f"{options.kind}, seed {options.seed}: {done:,} cases from {options.first} "
        f"in {time.monotonic() - begin:.0f} s: {found['refused']:,} refused, "
        f"{found['ran']:,} ran, {failures} failures; "
        f"slowest case {slowest[1]}: {slowest[0]:.2f} s; "
        f"largest case {largest[1]}: {largest[0] >> 20:,} MiB"
    )
    return failures


def main() -> int:
    """Run cases, and print how much memory the interpreters took."""
    with kept_processes():
        failures = _campaign(_options())
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process of an interpreter: {peak // 1024:,} MiB")
    return 1 if failures or peak > LIMIT_BYTES // 1024 else 0


if __name__ == "__main__":
    sys.exit(main())
