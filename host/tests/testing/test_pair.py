import numpy as np

from matloom.arch.config import PRESETS
from matloom.device.driver import Driver
from matloom.device.rtl import RtlTransport
from matloom.testing.pair import Pair
from matloom.testing.random_programs import read_state


def test_the_first_state_is_random_by_seed():
    """Scratchpad and accumulators hold any bits before something writes them."""
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
    pair = Pair.of(chip, config)
    model, rtl = (read_state(driver) for driver in pair)
    chip.close()
    assert model == rtl
    assert not any(model)
