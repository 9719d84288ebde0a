"""Damages Program files and TensorFlow Lite files: each is refused by one sentence, or runs.

    python bench/fuzz_files.py structured --count 100000 --seed 1
    python bench/fuzz_files.py random --seconds 600
    python bench/fuzz_files.py tflite --count 20000

Cases are numbered from the seed; a failure is printed with what repeats it.
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

from support.file_cases import networks, programs
from support.file_edits import FileParts, cut, edit_bytes, edit_structure
from support.file_runs import network_outcome, program_outcome
from support.tflite_edits import edit_tflite, tables_of

#: Seconds of a case, and bytes that the process may allocate beyond what it begins with.
LIMIT_SECONDS, LIMIT_BYTES = 20, 1 << 30


class TooSlowError(Exception):
    """A case took longer than its time."""


def _case(kind: str, seed: int, number: int) -> tuple[str, bytes]:
    """Return the name of the original and the edited file."""
    draw = random.Random(f"{kind} {seed} {number}")
    files = networks() if kind == "tflite" else programs()
    name = draw.choice(sorted(files))
    data = files[name]
    if kind == "tflite":
        return name, edit_tflite(data, tables_of(data), draw)
    if kind == "structured":
        return name, edit_structure(FileParts.of(data), draw)
    return name, cut(data, draw) if draw.random() < 0.05 else edit_bytes(data, draw)


def _on_alarm(_signal: int, _frame: object) -> None:
    raise TooSlowError(f"a case must end within {LIMIT_SECONDS} s")


def _own_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> int:
    """Run cases until the count or the time is reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("structured", "random", "tflite"))
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--most-failures", type=int, default=20)
    options = parser.parse_args()
    outcome = network_outcome if options.kind == "tflite" else program_outcome
    for data in (networks() if options.kind == "tflite" else programs()).values():
        outcome(data)
    limit = _own_bytes() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _on_alarm)
    begin, done, slowest, failures = time.monotonic(), 0, (0.0, -1), 0
    found: Counter[str] = Counter()
    for number in range(options.first, options.first + options.count):
        name, data = _case(options.kind, options.seed, number)
        signal.alarm(LIMIT_SECONDS)
        start = time.monotonic()
        try:
            found["ran" if outcome(data) is None else "refused"] += 1
        except Exception:
            failures += 1
            print(f"case {number} of seed {options.seed} ({name}):")
            print("".join(traceback.format_exc().splitlines(keepends=True)[-7:]), flush=True)
        signal.alarm(0)
        done += 1
        slowest = max(slowest, (time.monotonic() - start, number))
        if done % 5000 == 0:
            print(f"{done:,} cases, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if failures >= options.most_failures or time.monotonic() - begin > options.seconds:
            break
    taken = time.monotonic() - begin
    print(
        f"{options.kind}, seed {options.seed}: {done:,} cases from {options.first} "
        f"in {taken:.0f} s: {found['refused']:,} refused, {found['ran']:,} ran, "
        f"{failures} failures; slowest case {slowest[1]}: {slowest[0]:.2f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
