"""Checks the advice of `matloom profile`: carries out its first line on the simulated chip.

    python bench/advice.py NETWORK... [--config nano] [--cycles 3000000]

Prints the gain that the first line of `matloom profile` predicts, and the gain that the chip counts
once its change is made. Building the simulator of another engine takes minutes the first time.
Networks of more cycles than --cycles are left out.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from matloom.arch.config import Config, load_config
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.profile.advice import Advice, AdviceOptions
from matloom.profile.profile import make_profile
from matloom.program import Program
from matloom.runtime import compile, load
from matloom.schedule import CompileOptions
from matloom.tools.interface import random_arrays

#: How far the gain may be from the prediction: as a share of it, or in shares of all cycles, since
#: predictions before and after are each a percent off.
TOLERANCE, LEAST = 0.2, 0.02


def compile_unchecked(network: Path, config: Config, memory: Memory, effort: int) -> Program:
    """Return a network's program, compiled without checking its results with the interpreter."""
    return compile(
        network, config, CompileOptions(effort=effort, tuned=False), None, "none", memory
    )


def cycles(program: Program, calls: int = 1) -> int:
    """Run a program `calls` times on the simulated chip; return the cycles of the last call."""
    with load(program, device="rtl", memory=program.memory) as session:
        for _ in range(calls):
            session.run(random_arrays(program, 0))
        counted: int = session.report().cycles
    return counted


def apply_advice(network: Path, program: Program, line: Advice) -> int:
    """Make the change that a line of advice proposes; return the cycles of a call with it."""
    change = line.change
    if change is None:
        return cycles(program, calls=2)
    memory = change.memory or program.memory
    effort = 1 if change.effort is None else change.effort
    return cycles(compile_unchecked(network, change.apply(program.config), memory, effort))


def measure_advice(
    networks: list[Path], config: Config, most: int
) -> Iterator[tuple[str, Advice, float]]:
    """Yield each network's name, its first line of advice, and the counted gain as a fraction.

    Networks with more than `most` predicted cycles, or without advice, are left out.
    """
    for network in networks:
        program = compile_unchecked(network, config, REFERENCE_MEMORY, 1)
        if not 0 < program.predicted_cycles <= most:
            continue
        with load(program, device="rtl", memory=program.memory) as session:
            session.run(random_arrays(program, 0))
            report, counted = session.report(), session.counted

        again = partial(compile_unchecked, network)
        how = AdviceOptions(compile_again=again)
        lines = make_profile(program, report, counted, advise=how).advice
        if lines:
            after = apply_advice(network, program, lines[0])
            yield network.stem, lines[0], 1 - after / report.cycles


def is_true(line: Advice, gain: float) -> bool:
    """Return whether the counted gain is close to the one that a line of advice predicts."""
    return abs(gain - line.gain) <= max(TOLERANCE * line.gain, LEAST)


def main() -> None:
    """Carry out advice for the networks of the command line; fail if a gain is far off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", type=Path)
    parser.add_argument("--config", default="nano")
    parser.add_argument("--cycles", type=int, default=3_000_000)
    arguments = parser.parse_args()
    false = 0
    for name, line, gain in measure_advice(
        arguments.networks, load_config(arguments.config), arguments.cycles
    ):
        right = is_true(line, gain)
        false += not right
        print(
            f"{name:40} {line.gain:6.1%} predicted, {gain:6.1%} counted"
            f"{'' if right else '  FALSE'}: {line.title}",
            flush=True,
        )
    raise SystemExit(false > 0)


if __name__ == "__main__":
    main()
