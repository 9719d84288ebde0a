import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import pack
from matloom.arch.isa import Region
from matloom.device import driver
from matloom.device.driver import Driver
from matloom.device.errors import DeviceTimeoutError
from matloom.device.rtl import RtlTransport
from matloom.verification.pair import Pair
from matloom.verification.random_programs import REGION_BYTES, read_state
from matloom.verification.timestamps import regular_instructions


def test_the_first_state_is_random_by_seed():
    """Scratchpad and accumulators hold random bits until written."""
    config, states = PRESETS["nano"], []
    for seed in (1, 1, 2):
        chip = RtlTransport(config, 1 << 20, state_seed=seed)
        states.append(read_state(Driver(chip, config)))
        chip.close()
    first, again, other = (np.frombuffer(state, np.uint8) for state in states)
    assert (first == again).all()
    assert (first != other).mean() > 0.9


def test_a_pair_begins_with_equal_states():
    config = PRESETS["nano"]
    chip = RtlTransport(config, 1 << 22, state_seed=3)
    pair = Pair.start(chip, config)
    model, rtl = (read_state(driver) for driver in pair)
    chip.close()
    assert model == rtl
    assert not any(model)


def test_a_busy_machine_makes_no_hang(monkeypatch):
    """A run takes its usual cycles, but many more seconds."""
    config, now = PRESETS["nano"], [0.0]
    chip = RtlTransport(config, 1 << 22)
    pair = Pair.start(chip, config)

    def later():
        now[0] += 25.0
        return now[0]

    waited, wait = [], chip.wait_interrupt
    monkeypatch.setattr(driver.time, "monotonic", later)
    monkeypatch.setattr(chip, "wait_interrupt", lambda cycles: waited.append(0) or wait(50))
    commands = b"".join(pack(each) for each in regular_instructions(config, range(1, 9)))
    pair.rtl.place_regions({Region.PROGRAM: len(commands), Region.OUTPUT: REGION_BYTES})
    pair.rtl.write_region(Region.PROGRAM, 0, commands)
    assert pair.rtl.run(0, len(commands)).values["cycles"] > 100
    assert len(waited) > 2


def test_a_hang_ends_after_cycles(monkeypatch):
    config = PRESETS["nano"]
    chip = RtlTransport(config, 1 << 22)
    pair = Pair.start(chip, config)
    monkeypatch.setattr(chip, "wait_interrupt", lambda cycles: cycles)
    monkeypatch.setattr(pair.rtl, "read", lambda name: 1)  # busy
    with pytest.raises(DeviceTimeoutError, match="20000000 cycles"):
        pair.rtl._wait()
