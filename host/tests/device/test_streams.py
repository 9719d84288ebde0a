"""Raw instruction streams, legal and spoilt, on the chip and on the functional model."""

import random

import numpy as np
import pytest

from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.instruction import IsaError, length_granules, unpack
from matloom.arch.isa import FORMATS, GRANULE_BYTES, WRITABLE_REGIONS, Opcode, Region
from matloom.device.errors import DeviceFault
from matloom.device.rtl import MemoryTiming
from matloom.streams import clear_state, random_stream, read_state, run_stream
from matloom.verify import VerifyError, verify_commands

every_config = pytest.mark.parametrize(
    "pair", ["nano", "8x16", "reference", "narrow", "float"], indirect=True
)
a_tenth_of = pytest.mark.parametrize(
    "numbers",
    [range(100), pytest.param(range(100, 1000), marks=pytest.mark.slow)],
    ids=["100", "1000"],
)

#: Streams that would take longer than this many steps are not run.
MOST_STEPS = 60_000

_LOOPS = {
    Opcode.LOAD: ("rows", "planes", "row_bytes"),
    Opcode.STORE: ("rows", "planes", "row_bytes"),
    Opcode.EXEC: ("width", "height", "kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
    Opcode.POST: ("width", "height", "oc_blocks"),
    Opcode.END: (),
}


def assert_equal_runs(pair, stream, number):
    """Run a legal stream on both devices and compare what it wrote to external memory."""
    model, chip = (run_stream(driver, stream) for driver in pair)
    assert chip == model, f"stream {number}: external memory"
    counted = pair.rtl.counters().values
    spent = sum(counted[name] for name, _doc in EXEC_CAUSES)
    assert spent == counted["cycles"] > 0, f"stream {number}: a cycle has one cause"
    for unit in ("load_busy", "post_busy", "store_busy"):
        assert counted[unit] < counted["cycles"], f"stream {number}: {unit}"


def assert_equal_states(pair, number):
    """Compare all that is on chip: what streams leave there stays until another overwrites it."""
    pair.rtl.transport.set_timing(MemoryTiming())
    model, chip = (read_state(driver) for driver in pair)
    assert chip == model, f"after stream {number}: scratchpad or accumulators"


@every_config
@a_tenth_of
def test_legal_streams(pair, numbers, seed):
    for number in range(seed + numbers.start, seed + numbers.stop):
        pair.disturb(number)
        assert_equal_runs(pair, random_stream(number, pair.config), number)
        if number % 5 == 4:
            assert_equal_states(pair, number)


@pytest.mark.parametrize("pair", ["nano"], indirect=True)
def test_state_is_what_the_model_holds(pair, seed):
    """The state is read through instructions: here against the model's own arrays."""
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


def steps(commands):
    """Return about how many steps all instructions before the first undecodable one take."""
    total, offset = 0, 0
    while offset < len(commands):
        try:
            instruction, offset = unpack(commands, offset)
        except IsaError:
            break
        product = 1
        for name in _LOOPS[instruction.opcode]:
            product *= getattr(instruction, name)
        total += product
    return total


def spoil(generator, stream):
    """Return the stream's commands with a bit or a field changed, or cut short, or noise."""
    kind = generator.choice(("bit", "bit", "bit", "word", "cut", "noise", "behind"))
    commands = bytearray(stream.commands)
    if kind == "bit":
        commands[generator.randrange(len(commands))] ^= 1 << generator.randrange(8)
    elif kind == "word":
        at = generator.randrange(0, len(commands), 4)
        commands[at : at + 4] = generator.randbytes(4)
    elif kind == "cut":
        del commands[generator.randrange(1, len(commands) // GRANULE_BYTES) * GRANULE_BYTES :]
    elif kind == "behind":
        # Legal instructions, still at work when noise comes.
        noise = bytearray(generator.randbytes(3 * GRANULE_BYTES))
        noise[0] = noise[0] & 0xF0 | generator.choice(tuple(Opcode))
        boundaries, at = [], 0
        while at < len(commands):
            boundaries.append(at)
            at += length_granules(commands[at]) * GRANULE_BYTES
        commands[generator.choice(boundaries) :] = noise
    else:
        commands = bytearray(generator.randbytes(GRANULE_BYTES * generator.randint(1, 12)))
        if generator.random() < 0.5:
            commands[0] = commands[0] & 0xF0 | generator.choice(tuple(FORMATS))
    return bytes(commands)


def defined(stream, config):
    """Return whether units in any order come to the same, with parameters that mean something.

    Multipliers of a channel that are noise do not.
    """
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    try:
        verify_commands(stream.commands, config, {Region.PROGRAM: len(stream.commands), **sizes})
    except VerifyError:
        return False
    offset = 0
    while stream.commands[offset] & 15 != Opcode.END:
        instruction, offset = unpack(stream.commands, offset)
        if instruction.opcode is Opcode.POST and instruction.channel_scale:
            return False
    return True


def outcome(driver, stream):
    """Run a stream and return the fault record that it ends with, or None."""
    try:
        run_stream(driver, stream)
    except DeviceFault as fault:
        return fault.cause, fault.opcode, fault.index, fault.address
    return None


def outside(driver, bases, stream):
    """Return external memory without what the stream may write."""
    memory = driver.transport.memory.copy()
    for region in WRITABLE_REGIONS:
        start = bases[region] - driver.transport.memory_base
        memory[start : start + len(stream.regions[region])] = 0
    return memory


def fill(driver, stream, generator):
    """Place the stream's regions between guard bytes and return where they are."""
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    bases = driver.allocate({Region.PROGRAM: len(stream.commands), **sizes})
    noise = np.frombuffer(generator.randbytes(1 << 16), np.uint8)
    driver.transport.memory[: noise.size] = noise
    driver.write_region(Region.PROGRAM, 0, stream.commands)
    for region, contents in stream.regions.items():
        driver.write_region(region, 0, contents)
    return bases


@pytest.mark.parametrize(
    "pair",
    ["nano", "8x16", "narrow", "float", pytest.param("reference", marks=pytest.mark.slow)],
    indirect=True,
)
@pytest.mark.parametrize(
    "numbers",
    [range(40), pytest.param(range(40, 1000), marks=pytest.mark.slow)],
    ids=["40", "1000"],
)
def test_spoilt_streams(pair, numbers, seed):
    """A spoilt stream ends as on the model, writes nowhere else, and leaves a usable core.

    Results are compared where they are defined: a field changed at random may bring hazards,
    and then the order of units decides.
    """
    generator = random.Random(f"spoilt {seed} {numbers}")
    faults = results = 0
    for number in range(seed + numbers.start, seed + numbers.stop):
        legal = random_stream(number, pair.config)
        commands = spoil(generator, legal)
        while steps(commands) > MOST_STEPS:
            commands = spoil(generator, legal)
        stream = type(legal)(instructions=(), commands=commands, regions=legal.regions)
        pair.disturb(number)
        bases = fill(pair.rtl, stream, generator)
        before = outside(pair.rtl, bases, stream)
        found = outcome(pair.rtl, stream)
        assert found == outcome(pair.model, stream), f"stream {number}"
        assert (outside(pair.rtl, bases, stream) == before).all(), f"stream {number}: stray write"
        faults += found is not None
        for driver in pair:
            driver.reset()
        if number % 10 == 0:
            stream = legal
        elif found is not None or not defined(stream, pair.config):
            continue
        results += 1
        for driver in pair:
            clear_state(driver)
        assert_equal_runs(pair, stream, number)
        assert_equal_states(pair, number)
    assert faults > len(numbers) // 3
    assert results > len(numbers) // 8
