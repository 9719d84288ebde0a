"""LIMIT on the whole chip: which instruction ends a run, when, and what follows."""

import dataclasses

import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import WRITABLE_REGIONS, Opcode, Region
from matloom.data.digits import NETWORK, held_out, input_quantisation, quantise
from matloom.device.errors import DeviceFaultError
from matloom.device.rtl import MemoryTiming
from matloom.verification.random_programs import clear_state, random_streams, run_stream

pytestmark = pytest.mark.parametrize("pair", ["limit"], indirect=True)

END = Instruction(Opcode.END)
ROW = {"row_bytes": 8, "rows": 1, "planes": 1}
REGION_BYTES = 4096

#: Legal at `nano`, and each goes over the same bytes some million times.
ENDLESS = {
    Opcode.LOAD: {**ROW, "rows": 4095, "planes": 4095, "region": Region.INPUT},
    Opcode.STORE: {**ROW, "rows": 4095, "planes": 4095, "region": Region.OUTPUT},
    Opcode.EXEC: {
        **{"input_rows": 1, "input_row_bytes": 8, "weights_fixed": 1, "width": 16, "height": 16},
        **{"kernel_rows": 255, "kernel_cols": 255, "blocks": 1, "oc_blocks": 1},
    },
    # The most that it can repeat: bytes in place.
    Opcode.POST: {
        **{"source": 1, "width": 4095, "height": 4095, "oc_blocks": 1, "tail": 4},
        **{"rounding": 0, "clamp_low": -128, "clamp_high": 127},
    },
}


def place(driver, commands):
    """Put commands and noise into external memory; return the bytes of the commands."""
    raw = b"".join(map(pack, commands))
    driver.place_regions(dict.fromkeys(Region, REGION_BYTES))
    driver.write_region(Region.PROGRAM, 0, raw)
    noise = np.random.default_rng(0).integers(0, 256, REGION_BYTES, np.uint8).tobytes()
    for region in (Region.INPUT, *WRITABLE_REGIONS):
        driver.write_region(region, 0, noise)
    return len(raw)


def copies(driver, limit=0):
    """Assert that a copy of some bytes is right under a limit; return the counters."""
    load = Instruction(Opcode.LOAD, {**ROW, "region": Region.INPUT, "row_bytes": 200})
    store = {**ROW, "region": Region.OUTPUT, "row_bytes": 200, "wait_load": 1, "dram_offset": 5}
    size = place(driver, [load, Instruction(Opcode.STORE, store), END])
    driver.set_limit(limit)
    counted = driver.run(0, size).values
    copied = driver.read_region(Region.OUTPUT, 5, 200)
    assert copied == driver.read_region(Region.INPUT, 0, 200)
    return counted


def stopped(driver, size, limit):
    """Run commands that exceed LIMIT; return the fault after the checks that all cases share."""
    driver.set_limit(limit)
    with pytest.raises(DeviceFaultError) as caught:
        driver.run(0, size)
    assert caught.value.cause is Fault.LIMIT
    assert caught.value.address == 0
    assert driver.read("STATUS") == 4
    assert driver.read("IRQ_STATUS") == 2
    return caught.value


@pytest.mark.parametrize("slow", [False, True], ids=["calm", "stalls"])
@pytest.mark.parametrize("opcode", ENDLESS, ids=lambda opcode: opcode.name)
def test_an_endless_instruction_is_stopped(pair, opcode, slow):
    """The watchdog sees progress. The long instruction comes third, after short ones."""
    driver = pair.rtl
    short = {**ENDLESS[opcode], "width": 1, "height": 1, "rows": 1, "planes": 1}
    short |= {"kernel_rows": 1, "kernel_cols": 1}
    short = {name: short[name] for name in ENDLESS[opcode]}
    fields = [short, short, ENDLESS[opcode]]
    size = place(driver, [*(Instruction(opcode, each) for each in fields), END])
    driver.write("TIMEOUT", 2000)
    if slow:
        pair.start_stalls(5)
    fault = stopped(driver, size, 5000)
    number = 1 + (Opcode.LOAD, Opcode.EXEC, Opcode.POST, Opcode.STORE).index(opcode)
    assert (fault.unit, fault.opcode, fault.index) == (opcode.name, opcode, 2)
    assert number == driver.read("FAULT") >> 4 & 7
    assert 5000 < driver.read("CYCLES") < 2 * 5000 + (3000 if slow else 800)
    # The bus is left as its rules want it, and the engine works again.
    driver.reset()
    assert [driver.read(name) for name in ("FAULT", "FAULT_INDEX", "STATUS")] == [0] * 3
    pair.stop_stalls()
    copies(driver, 5000)


def test_just_enough_and_too_little(pair):
    """The exact time of a LOAD and a STORE is enough; less than half of the longer one is not."""
    driver = pair.rtl
    counted = copies(driver)
    takes = {"LOAD": counted["load_busy"], "STORE": counted["store_busy"]}
    longest = max(takes.values())
    for limit in (longest, longest + 1, 3 * longest):
        assert copies(driver, limit) == counted, "a limit costs no cycle"
    name = max(takes, key=lambda each: takes[each])
    for limit in (longest // 2 - 2, longest // 3, 1):
        with pytest.raises(DeviceFaultError) as caught:
            copies(driver, limit)
        assert (caught.value.cause, caught.value.index) == (Fault.LIMIT, 0)
        assert caught.value.unit == name or min(takes.values()) > limit
    assert copies(driver) == counted


def test_a_memory_that_falls_silent_is_late_too(pair):
    """LIMIT is below the timeout; a reset then waits until the memory has answered."""
    driver = pair.rtl
    load = Instruction(Opcode.LOAD, {**ROW, "rows": 400, "region": Region.INPUT})
    size = place(driver, [load, END])
    wait = pair.chip.wait_interrupt

    def falls_silent(cycles):
        ran = wait(300)
        pair.chip.set_timing(MemoryTiming(frozen=True))
        return ran + wait(cycles)

    pair.chip.wait_interrupt = falls_silent
    try:
        fault = stopped(driver, size, 1000)
    finally:
        del pair.chip.wait_interrupt
    assert (fault.unit, fault.index) == ("LOAD", 0)
    driver.write("CONTROL", 2)
    assert driver.read("STATUS") & 8
    pair.stop_stalls()
    driver.reset()
    copies(driver, 1000)


@pytest.mark.parametrize("limit", [40, 150, 400])
def test_random_streams_end_right_or_by_the_limit(pair, seed, limit):
    """Whatever LIMIT interrupts, with any stalls, the next stream is as on the model."""
    ended = {True: 0, False: 0}
    for number, stream in enumerate(random_streams(pair.config, seed, 40)):
        expected = run_stream(pair.model, stream)
        pair.start_stalls(number)
        pair.rtl.set_limit(limit)
        cause = None
        try:
            assert run_stream(pair.rtl, stream) == expected
        except DeviceFaultError as fault:
            cause = fault.cause
            pair.rtl.reset()
        assert cause in (None, Fault.LIMIT)
        within = cause is None
        ended[within] += 1
        if not within:
            # What it left on chip is unknown; clearing that takes longer than the limit.
            pair.rtl.set_limit(0)
            for driver in pair:
                clear_state(driver)
    assert ended[False]


def test_long_streams_and_a_network_never_meet_a_wide_limit(pair, seed):
    pair.rtl.set_limit(200_000)
    for number, stream in enumerate(random_streams(pair.config, seed + 1, 60)):
        pair.start_stalls(number)
        assert run_stream(pair.rtl, stream) == run_stream(pair.model, stream)
    pair.stop_stalls()
    images, _labels = held_out()
    values = quantise(images[:2], *input_quantisation())
    expected = matloom.load(NETWORK, device="model", config=pair.config).run(values)
    outputs = matloom.load(NETWORK, device=pair.rtl, config=pair.config).run(values)
    assert (outputs == expected).all()
    assert PRESETS["nano"] == dataclasses.replace(pair.config, time_limit=0, element_stride=1)
