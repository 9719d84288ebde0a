"""Parity on the whole chip changes no result and no cycle, and reports no false errors."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.device.driver import Driver
from matloom.device.errors import DeviceFaultError
from matloom.device.rtl import RtlTransport
from matloom.verification.pair import MEMORY_BYTES, Pair
from matloom.verification.random_programs import clear_state, random_streams, run_stream

# The units that have parity have fast tests (rtl/tests/memory, rtl/tests/array).
pytestmark = pytest.mark.slow

on_both = pytest.mark.parametrize("pair", ["parity"], indirect=True)

CONFIG = dataclasses.replace(PRESETS["nano"], parity=1)
ROW = {"row_bytes": 64, "rows": 1, "planes": 1}
END = Instruction(Opcode.END)
FILL = Instruction(Opcode.LOAD, {**ROW, "fill": 1})
POST = {
    **{"width": 8, "height": 1, "oc_blocks": 1, "tail": 4},
    **{"rounding": 0, "clamp_low": -128, "clamp_high": 127},
}
EXEC = {
    **{"input_rows": 1, "input_row_bytes": 8, "weights_fixed": 1, "width": 8, "height": 1},
    **{"kernel_rows": 1, "kernel_cols": 1, "blocks": 1, "oc_blocks": 1},
}

#: Instructions, the last of which reads what was never written; unit, and memory of the record.
READS = {
    "store": ([Instruction(Opcode.STORE, {**ROW, "region": Region.OUTPUT})], "STORE", 0),
    "post": ([Instruction(Opcode.POST, {**POST, "source": 1})], "POST", 0),
    "exec": ([Instruction(Opcode.EXEC, EXEC)], "EXEC", 0),
    "sums of post": ([Instruction(Opcode.POST, {**POST, "dest_addr": 4096})], "POST", 1),
    "sums of exec": (
        [FILL, Instruction(Opcode.EXEC, {**EXEC, "accumulate": 1, "wait_load": 1})],
        "EXEC",
        1,
    ),
}


@pytest.fixture
def without(pair, open_chip):
    """Return the same engine without parity."""
    config = dataclasses.replace(pair.config, parity=0)
    assert config == PRESETS["nano"]
    return Pair.start(open_chip(config), config)


@on_both
@pytest.mark.parametrize("slow", [False, True], ids=["calm", "stalls"])
def test_streams_have_the_same_results_and_cycles(pair, without, seed, slow):
    for number, stream in enumerate(random_streams(pair.config, seed, 60)):
        for each in (pair, without):
            if slow:
                each.start_stalls(number)
        expected = run_stream(pair.model, stream)
        assert run_stream(pair.rtl, stream) == expected
        assert run_stream(without.rtl, stream) == expected
        assert pair.rtl.read("CYCLES") == without.rtl.read("CYCLES") > 0


def run(driver, commands):
    """Run commands with some external memory."""
    raw = b"".join(map(pack, [*commands, END]))
    driver.place_regions({Region.PROGRAM: len(raw), Region.OUTPUT: 4096})
    driver.write_region(Region.PROGRAM, 0, raw)
    driver.run(0, len(raw))


@pytest.fixture
def chip(request):
    transport = RtlTransport(CONFIG, MEMORY_BYTES, check_bus=True, state_seed=request.param)
    yield transport
    transport.close()


@pytest.mark.parametrize("chip", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("name", READS)
def test_reading_random_memory_is_a_parity_fault(chip, name):
    """The bus still obeys its rules; after a reset and a first write, reads are fine."""
    commands, unit, memory = READS[name]
    driver = Driver(chip, CONFIG)
    driver.reset()
    with pytest.raises(DeviceFaultError) as caught:
        run(driver, commands)
    fault = caught.value
    assert (fault.cause, fault.unit, fault.opcode) == (Fault.PARITY, unit, Opcode[unit])
    assert (fault.index, fault.address) == (0, memory)
    assert (driver.read("STATUS"), driver.read("IRQ_STATUS")) == (4, 2)
    driver.reset()
    assert [driver.read(each) for each in ("FAULT", "FAULT_ADDRESS", "STATUS")] == [0] * 3
    clear_state(driver)
    run(driver, commands)


@pytest.mark.parametrize("chip", [0], indirect=True)
@pytest.mark.parametrize("name", READS)
def test_memories_of_zeros_are_right(chip, name):
    driver = Driver(chip, CONFIG)
    driver.reset()
    run(driver, READS[name][0])
