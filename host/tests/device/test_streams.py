"""Raw instruction streams, legal and corrupted, on the chip and on the functional model."""

import pytest

from matloom.arch.config import PRESETS
from matloom.verification.checks import check_corrupted_streams, check_streams
from matloom.verification.random_programs import clear_state, random_stream, read_state, run_stream

every_config = pytest.mark.parametrize(
    "pair",
    [
        *("nano", "8x16", "reference", "narrow", "float", "wide"),
        pytest.param("units", marks=pytest.mark.slow),
    ],
    indirect=True,
)
a_tenth_of = pytest.mark.parametrize(
    "numbers",
    [range(40), pytest.param(range(40, 1000), marks=pytest.mark.slow)],
    ids=["40", "1000"],
)


@every_config
@a_tenth_of
def test_legal_streams(pair, numbers, seed):
    ran = check_streams(pair, seed + numbers.start, len(numbers))
    assert ran["streams"] == len(numbers)
    assert ran["instructions"] > 18 * len(numbers)


@pytest.mark.parametrize("pair", ["nano"], indirect=True)
def test_state_equals_the_models(pair, seed):
    """Instructions read the state; compare it with the model's own arrays."""
    engine = pair.model.transport.engine
    for number in range(seed, seed + 100):
        run_stream(pair.model, random_stream(number, pair.config))
        if engine.accumulators.any():
            break
    spad, accumulators = engine.spad.copy(), engine.accumulators.copy()
    assert accumulators.any()
    state = read_state(pair.model)
    assert state[: spad.size] == spad.tobytes()
    assert state[spad.size :][: accumulators.size] == (accumulators & 255).astype("u1").tobytes()
    assert (engine.spad == spad).all()
    assert (engine.accumulators == accumulators).all()
    engine.accumulators[3, 2] ^= 1 << 30
    assert read_state(pair.model) != state
    clear_state(pair.model)
    assert not engine.spad.any()
    assert not engine.accumulators.any()


@pytest.mark.parametrize(
    "pair",
    [
        "nano",
        "8x16",
        pytest.param("narrow", marks=pytest.mark.slow),
        "float",
        pytest.param("reference", marks=pytest.mark.slow),
    ],
    indirect=True,
)
@pytest.mark.parametrize(
    "numbers",
    [range(40), pytest.param(range(40, 1000), marks=pytest.mark.slow)],
    ids=["40", "1000"],
)
def test_corrupted_streams(pair, numbers, seed):
    """Run a thousand at `nano`, and a third of that elsewhere.

    Which check refuses them does not depend on the array's size or formats, and clearing and
    reading all of a chip's memory after each stream that ends well takes most of the time.
    """
    whole = len(numbers) <= 100 or pair.config == PRESETS["nano"]
    count = len(numbers) if whole else len(numbers) // 3
    ran = check_corrupted_streams(pair, seed + numbers.start, count)
    assert ran["streams"] == count
    assert ran["faults"] > count // 3
    assert ran["results"] > count // 8
