"""Measures which lines and toggles of the generated Verilog the random stimuli reach.

    python bench/rtl_coverage.py --functional nano --functional small --lines nano --minutes 10

Writes docs/results/coverage.json: functional coverage of some configurations, and lines and
toggles of some by unit, with exclusions and what is missing. Other configurations keep their
entries. Each entry has the digest of its Verilog. A call with another --seed adds to the
functional coverage of the same Verilog.
"""

import contextlib
import dataclasses
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from matloom.arch.config import Config, load_config
from matloom.arch.csr import WINDOW_BYTES, Access, register, registers_of
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.arch.memory import Memory, load_memory
from matloom.coverage.coverage import Coverage
from matloom.coverage.lines import EXCLUSIONS, UnitFigures, by_unit, read_counts
from matloom.device.covered import CoveredTransport, LinesTransport
from matloom.device.errors import DeviceFaultError
from matloom.device.rtl import MEMORY_BASE, MemoryTiming
from matloom.verification.checks import (
    check_corrupted_streams,
    check_layers,
    check_stream,
    check_streams,
)
from matloom.verification.pair import MEMORY_BYTES, Pair
from matloom.verification.random_programs import random_stream, run_stream
from matloom.verification.steered import steered_streams
from matloom_rtl.generate import generate

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "coverage.json"

#: How external memory answers under each stall.
TIMINGS = {
    "steady": MemoryTiming(),
    "withheld": MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=1),
    "slow": MemoryTiming(memory=load_memory("sdram-16")),
}

#: Missing lines and signals that the report names.
_MAX_NAMED = 60


def _registers(chip: LinesTransport, pair: Pair, generator: random.Random) -> None:
    """Write every register that stores a value, and read every address of the window."""
    for item in registers_of(pair.config):
        for value in (0, 0xFFFF_FFFF, generator.getrandbits(32), 0):
            if item.access is Access.RW and item.name not in ("COMMAND_OFFSET", "COMMAND_BYTES"):
                chip.write32(item.offset, value)
    for offset in range(0, WINDOW_BYTES, 4):
        # Holes answer with an error.
        with contextlib.suppress(OSError):
            chip.read32(offset)
    pair.rtl.write("TIMEOUT", register("TIMEOUT").reset)


def _bus_errors(chip: LinesTransport, pair: Pair, generator: random.Random) -> None:
    """Make parts of external memory answer with errors, then not at all."""
    for _number in range(6):
        stream = random_stream(generator.getrandbits(32), pair.config)
        # Commands come first.
        first = MEMORY_BASE + generator.choice((0, 200, generator.randrange(0, 28_000)))
        broken = MemoryTiming(error_first=first, error_end=first + generator.choice((4, 64, 9000)))
        _run_faulty(chip, pair, stream, broken)
    pair.rtl.write("TIMEOUT", generator.randint(20, 300))
    stream = random_stream(generator.getrandbits(32), pair.config)
    _run_faulty(chip, pair, stream, MemoryTiming(memory=_slow_memory()))
    pair.rtl.write("TIMEOUT", register("TIMEOUT").reset)


def _slow_memory() -> Memory:
    """Return a memory whose first beat arrives after the watchdog fires."""
    return dataclasses.replace(load_memory("sdram-16"), read_latency=400)


def _run_faulty(chip: LinesTransport, pair: Pair, stream: Any, timing: MemoryTiming) -> None:
    """Run a stream that may fault, with a slow or faulty memory; then reset the chip."""
    chip.set_timing(timing)
    try:
        run_stream(pair.rtl, stream)
    except DeviceFaultError:
        pair.rtl.counters()
    chip.set_timing(MemoryTiming())
    pair.rtl.reset()


def _while_running(chip: LinesTransport, pair: Pair, generator: random.Random) -> None:
    """Write registers that are locked during a run; store to a read-only region."""
    store = {"region": Region.INPUT, "row_bytes": 4, "rows": 1, "planes": 1}
    forbidden = pack(Instruction(Opcode.STORE, store))
    stream = random_stream(generator.getrandbits(32), pair.config)
    _run_faulty(chip, pair, dataclasses.replace(stream, commands=forbidden), MemoryTiming())
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    pair.rtl.place_regions({Region.PROGRAM: len(stream.commands), **sizes})
    pair.rtl.write_region(Region.PROGRAM, 0, stream.commands)
    chip.write32(register("COMMAND_OFFSET").offset, 0)
    chip.write32(register("COMMAND_BYTES").offset, len(stream.commands))
    chip.write32(register("CONTROL").offset, 1)
    for item in registers_of(pair.config):
        # Locked and read-only registers answer with an error.
        with contextlib.suppress(OSError):
            if item.name not in ("CONTROL", "TIMEOUT"):
                chip.write32(item.offset, generator.getrandbits(32))
    pair.rtl.reset()


def _resets(chip: LinesTransport, pair: Pair, generator: random.Random) -> None:
    """Reset the chip by its wire while it is idle."""
    chip.reset()
    pair.rtl.reset()
    pair.rtl.write("TIMEOUT", register("TIMEOUT").reset)


def _run_steered(chip: LinesTransport, pair: Pair, generator: random.Random) -> None:
    """Run ten streams towards missing points of functional coverage."""
    streams = steered_streams(chip.coverage, generator.getrandbits(32))
    for number, steered in zip(range(10), streams, strict=False):
        chip.set_timing(TIMINGS[steered.stall])
        check_stream(pair, steered.stream, number)
        chip.count()
    chip.set_timing(MemoryTiming())


def functional_coverage(
    config: Config, seed: int, seconds: float, before: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the functional coverage that steered streams reach, on a chip without line counts.

    If `before` is the result of an earlier call for the same Verilog with another seed, this call
    continues from it.
    """
    digest = digest_of(config)
    chip = CoveredTransport(config, MEMORY_BYTES, check_bus=True, state_seed=seed)
    pair, end = Pair.start(chip, config), time.process_time() + seconds
    seeds = [seed]
    if before and before["verilog"] == digest and seed not in before["seeds"]:
        seeds = [*before["seeds"], seed]
        _add_earlier_points(chip.coverage, before)
    for number, steered in enumerate(steered_streams(chip.coverage, seed)):
        if time.process_time() > end:
            break
        chip.set_timing(TIMINGS[steered.stall])
        check_stream(pair, steered.stream, number)
        chip.count()
    chip.close()
    found = chip.coverage.as_dict()
    del found["config"], found["hits"], found["format"]
    return {"verilog": digest, "seeds": seeds, **found}


def _add_earlier_points(coverage: Coverage, before: dict[str, Any]) -> None:
    """Add the points that an earlier report covers to `coverage`, each once."""
    missing = set(before["missing"])
    coverage.add([point for point in coverage.model.all_points if point not in missing])
    coverage.runs, coverage.instructions = before["runs"], before["instructions"]


def digest_of(config: Config) -> str:
    """Return the digest of a configuration's Verilog as `matloom generate` writes it."""
    return hashlib.sha256(generate(config).verilog.encode()).hexdigest()[:16]


_Stimulus = Callable[[LinesTransport, Pair, random.Random], Any]

_STIMULI: tuple[_Stimulus, ...] = (
    lambda chip, pair, generator: check_corrupted_streams(pair, generator.getrandbits(32), 30),
    _bus_errors,
    _registers,
    _while_running,
    _run_steered,
    _run_steered,
    lambda chip, pair, generator: check_layers(pair, generator.getrandbits(16), 2),
    _resets,
    _run_steered,
    lambda chip, pair, generator: check_streams(pair, generator.getrandbits(32), 10),
)


def figures(units: dict[str, UnitFigures]) -> dict[str, Any]:
    """Return the report's entry on line and toggle coverage, given the figures of each unit."""
    lines = [f"{name}: {text}" for name, unit in units.items() for text in unit.missing_lines]
    signals: Counter[str] = Counter()
    for unit in units.values():
        signals += unit.missing_toggles
    named = ("lines", "lines_reached", "toggles", "toggles_reached")
    return {
        "units": {
            name: {**{each: getattr(unit, each) for each in named}, "excluded": dict(unit.excluded)}
            for name, unit in units.items()
        },
        "exclusions": EXCLUSIONS,
        "missing_lines": dict(Counter(lines).most_common(_MAX_NAMED)),
        "missing_toggles": dict(signals.most_common(_MAX_NAMED)),
    }


def lines(config: Config, seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Run stimuli of all kinds in turn; return the report's entry on lines and toggles reached."""
    generator = random.Random(seed)
    chip = LinesTransport(config, MEMORY_BYTES, check_bus=True, state_seed=seed)
    coverage, number, end = chip.coverage, 0, time.process_time() + seconds
    while time.process_time() < end or number < len(_STIMULI):
        _STIMULI[number % len(_STIMULI)](chip, Pair.start(chip, config), generator)
        number += 1
        click.echo(f"{number}: {coverage.shares()}", err=True)
    counts = folder / "lines.dat"
    chip.write_lines(counts)
    units = by_unit(read_counts(counts), chip.verilog.read_text())
    counts.unlink()
    made_by = {"verilog": digest_of(config), "seed": seed, "stimuli": number}
    return {**made_by, "instructions": coverage.instructions, **figures(units)}


@click.command()
@click.option("--functional", "of_points", multiple=True, help="Whose points are counted.")
@click.option("--lines", "of_lines", multiple=True, help="Whose lines and toggles are counted.")
@click.option("--minutes", default=10.0, show_default=True, help="Of the processor, for each.")
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS)
def main(
    of_points: tuple[str, ...], of_lines: tuple[str, ...], minutes: float, seed: int, output: Path
) -> None:
    """Measure functional coverage of some configurations, and lines and toggles of some."""
    report: dict[str, dict[str, Any]] = {"functional": {}, "lines": {}}
    if output.is_file():
        report = json.loads(output.read_text())
    asked = [("functional", name) for name in of_points] + [("lines", name) for name in of_lines]
    for what, name in asked:
        config, seconds = load_config(name), 60 * minutes
        report[what][name] = (
            functional_coverage(config, seed, seconds, report[what].get(name))
            if what == "functional"
            else lines(config, seed, seconds, output.parent)
        )
        output.write_text(json.dumps(report, indent=1) + "\n")
        click.echo(f"{output}: {what} of {name}")


if __name__ == "__main__":
    main()
