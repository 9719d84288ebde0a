"""All that a seed of `fuzz_networks` is checked for: tasks that workers can import."""

import signal
from contextlib import closing

import numpy as np

from matloom.arch.config import PRESETS
from matloom.cli.say import say
from matloom.device.open import memory_size_for, open_device
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.runtime import Session
from matloom.tools.compare import random_inputs
from support.network_campaign import (
    case_of,
    compile_case,
    digest,
    digests,
    failure_of,
    tflm_failure_of,
)

__all__ = ["outcomes"]

#: Every so many networks: against TensorFlow Lite Micro, on the chip, compiled in another process.
TFLM, CHIP, AGAIN = 10, 50, 50

#: Predicted cycles of a first call beyond which a network is not simulated.
LONGEST = 1_000_000


def chip_failure_of(seed: int, preset: str, device: str = "rtl") -> str | None:
    """Return how the chip's results differ in three calls; None if they are equal."""
    case = case_of(seed, PRESETS[preset])
    made = compile_case(case)
    if made.program.predicted_cycles > LONGEST:
        say(f"seed {seed} is too long for {preset}: {made.program.predicted_cycles:,} cycles")
        return None
    size = memory_size_for(made.program.memory_bytes)
    state = initial_state(made.graph)
    with closing(open_device(device, case.config, memory_bytes=size)) as driver:
        session = Session(made.program, driver, device)
        for call in range(3):
            given = random_inputs(made.graph, call)
            named = {made.graph.tensors[at].name: array for at, array in given.items()}
            found = session.run(named)
            expected = interpret(made.graph, {**state, **given})
            state = next_state(made.graph, expected)
            for at in made.graph.outputs:
                name = made.graph.tensors[at].name
                if not np.array_equal(found[name], expected[at]):
                    return f"on {preset}, call {call}: output {name} differs"
    return None


class GivenUp(BaseException):
    """A network took too long; not an `Exception`, which a case would report as its failure."""


def _give_up(_signal: int, _frame: object) -> None:
    raise GivenUp


def limited(seed: int, *, chip: bool, limit: float) -> list[str] | None:
    """Return `failures`, or None if they take more than `limit` seconds of processor time."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return failures(seed, chip=chip)
    except GivenUp:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def failures(seed: int, *, chip: bool) -> list[str]:
    """Return all faults that a seed shows."""
    case = case_of(seed)
    found = [failure_of(case)]
    if seed % TFLM == 0:
        found.append(tflm_failure_of(case))
    if chip and seed % CHIP == 7:
        preset = "nano" if seed % (2 * CHIP) == 7 else "small"
        try:
            found.append(chip_failure_of(seed, preset))
        except Exception as error:
            # One seed must not end a run of thousands.
            found.append(f"on {preset}: {type(error).__name__}: {error}")
    if seed % AGAIN == 3 and digests([seed], hash_seed=seed % 1000 + 1) != [digest(seed)]:
        found.append("another process compiles other bytes")
    return [text for text in found if text is not None]


def outcomes(seeds: range, *, chip: bool, limit: float) -> list[tuple[int, int, list[str] | None]]:
    """Return each seed, the operators of its network, and its failures; None if given up."""
    signal.signal(signal.SIGPROF, _give_up)
    return [
        (seed, len(case_of(seed).graph.nodes), limited(seed, chip=chip, limit=limit))
        for seed in seeds
    ]
