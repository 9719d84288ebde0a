"""After a reset, the ports show the same whatever registers and memories held before."""

import itertools

import pytest

from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.device.driver import Driver
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.verification.pair import MEMORY_BYTES
from matloom.verification.random_programs import clear_state, random_streams, run_stream

from .conftest import CONFIGS

#: Cycles between two looks at the digest, where a difference is to be found.
STEP = 256


class Watched(Driver):
    """Driver of a chip from a random state that keeps the digest of everything its ports show.

    The digest is read every STEP cycles of a run, so that a difference can be located.
    """

    def __init__(self, config, state_seed):
        chip = RtlTransport(config, MEMORY_BYTES, state_seed=state_seed)
        chip.start_digest()
        chip.reset()
        self.digests, self._simulate = [], chip.wait_interrupt
        chip.wait_interrupt = self._in_steps
        super().__init__(chip, config, 60.0)

    def _in_steps(self, limit):
        ran = 0
        while ran < limit:
            step = min(STEP, limit - ran)
            now = self._simulate(step)
            self.digests.append((self.transport.elapsed, self.transport.digest))
            ran += now
            if now < step:
                break
        return ran


def shown(config, state_seed, use):
    """Return the cycles and digests of a use of the chip, from a random first state."""
    driver = Watched(config, state_seed)
    use(driver)
    driver.read("STATUS")
    digests = [*driver.digests, (driver.transport.elapsed, driver.transport.digest)]
    driver.transport.close()
    return digests


def store_scratchpad(driver):
    """Store scratchpad bytes that were never loaded."""
    instructions = (
        Instruction(
            Opcode.STORE, {"region": Region.OUTPUT, "row_bytes": 64, "rows": 1, "planes": 1}
        ),
        Instruction(Opcode.END),
    )
    commands = b"".join(map(pack, instructions))
    driver.place_regions({Region.PROGRAM: len(commands), Region.OUTPUT: 64})
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.run(0, len(commands))


def streams(seed, count):
    """Return a use of the chip: write all memories, then run streams with resets in between."""

    def use(driver):
        clear_state(driver)
        for number, stream in enumerate(random_streams(driver.config, seed, count)):
            if number % 4 == 3:
                driver.reset()
            stalls = {"stall_per_1024": 300, "latency_jitter": 40, "seed": number}
            driver.transport.set_timing(MemoryTiming(**stalls if number % 2 else {}))
            run_stream(driver, stream)

    return use


def first_difference(runs):
    """Return the cycles between which runs begin to differ, or None."""
    earlier = 0
    for looks in itertools.zip_longest(*runs):
        if len(set(looks)) > 1:
            return earlier, looks[0][0]
        earlier = looks[0][0]
    return None


def test_unwritten_bytes_change_the_digest(seed):
    """The digest must depend on the first state if unwritten bytes are stored."""
    runs = [shown(CONFIGS["nano"], seed + n, store_scratchpad) for n in range(2)]
    assert first_difference(runs) is not None


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("nano", 2),
        *(pytest.param(name, 30, marks=pytest.mark.slow) for name in ("nano", "units")),
    ],
)
def test_no_output_depends_on_the_first_state(name, count, seed):
    states = range(seed, seed + (4 if count > 2 else 2))
    runs = [shown(CONFIGS[name], state, streams(seed, count)) for state in states]
    assert len({run[-1][0] for run in runs}) == 1, "as many cycles"
    assert first_difference(runs) is None
