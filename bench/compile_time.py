"""Measures the time to compile MobileNetV2's blocks, 10 to 160 layers, 48x48 to 224x224.

    python bench/compile_time.py                   # all, into docs/results/compile_time.json
    python bench/compile_time.py --presets nano    # printed; with --report FILE also written

Seconds are of processor time, in one process: of the compilation alone, then of the checks of the
program (`matloom.compiler.Compiled.check`, mode sample) that `compile_network` makes by default.
The report is written after each network, which takes at most --limit seconds.
"""

import argparse
import json
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_unchecked
from matloom.program import EngineStep
from matloom.program.instruction_table import unpack_all
from support.mobilenet import mobilenet
from support.reports import parse_with_report, read_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "compile_time.json"

#: Layers at one size of the input, and sizes at one number of layers.
LAYERS, SIZE = (10, 20, 40, 80, 160), 96
SIZES, DEPTH = (48, 96, 160, 224), 52


@dataclass(frozen=True, kw_only=True)
class Point:
    """Measurement of one compilation: seconds without and with checks, and the result.

    Values are None if the compilation did not finish in time.
    """

    sweep: str
    preset: str
    layers: int
    size: int
    seconds: float | None = None
    checked_seconds: float | None = None
    instructions: int | None = None
    cycles: int | None = None


class _LimitError(Exception):
    """A compilation that takes too long."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    """Raise `_LimitError`; a signal handler."""
    raise _LimitError


def measure(sweep: str, preset: str, layers: int, size: int) -> Point:
    """Compile a network and check its program; return the measurement."""
    point = {"sweep": sweep, "preset": preset, "layers": layers, "size": size}
    graph, config = mobilenet(layers, size), PRESETS[preset]
    begin = time.process_time()
    made = compile_unchecked(graph, config, CompileOptions(tuned=False))
    seconds = time.process_time() - begin
    made.check("sample")
    program = made.program
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    return Point(
        **point,
        seconds=round(seconds, 2),
        checked_seconds=round(time.process_time() - begin, 2),
        instructions=sum(len(list(unpack_all(program.commands(step)))) for step in steps),
        cycles=program.predicted_cycles,
    )


def main() -> None:
    """Measure the networks and presets selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", default="nano,reference", help="separated by commas")
    parser.add_argument("--limit", type=float, default=60, help="seconds of processor time")
    arguments = parse_with_report(parser, REPORT, ("presets", "limit"))
    known = [Point(**item) for item in read_report(arguments.report).get("points", [])]
    points = {(item.sweep, item.preset, item.layers, item.size): item for item in known}
    sweeps = [("layers", layers, SIZE) for layers in LAYERS]
    sweeps += [("size", DEPTH, size) for size in SIZES]
    signal.signal(signal.SIGPROF, _stop)
    for preset in arguments.presets.split(","):
        for sweep, layers, size in sweeps:
            key = sweep, preset, layers, size
            signal.setitimer(signal.ITIMER_PROF, arguments.limit)
            try:
                points[key] = measure(*key[:2], layers, size)
            except _LimitError:
                points[key] = Point(sweep=sweep, preset=preset, layers=layers, size=size)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            print(points[key], flush=True)
            report = {"points": [asdict(item) for _, item in sorted(points.items())]}
            write_report(arguments.report, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
