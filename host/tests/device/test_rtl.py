"""The simulated chip: memory timing, bus errors, a memory that never answers, waves, builds."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.device import simulator
from matloom.device.errors import DeviceError, DeviceFaultError
from matloom.device.open import open_device
from matloom.device.rtl import MEMORY_BASE, MemoryTiming
from matloom.verification.random_programs import clear_state, random_stream, read_state, run_stream
from matloom_rtl.generate import Chip

pytestmark = pytest.mark.parametrize("pair", ["nano"], indirect=True)

ROW_BYTES = 1024


def copy(driver, rows=8):
    """Copy rows from the input to the output region; return the counters."""
    fields = {
        "row_bytes": ROW_BYTES,
        "rows": rows,
        "planes": 1,
        "dram_row_step": ROW_BYTES,
        "spad_row_step": ROW_BYTES,
    }
    instructions = (
        Instruction(Opcode.LOAD, {**fields, "region": Region.INPUT}),
        Instruction(Opcode.STORE, {**fields, "region": Region.OUTPUT, "wait_load": 1}),
        Instruction(Opcode.END),
    )
    commands = b"".join(pack(instruction) for instruction in instructions)
    size = rows * ROW_BYTES
    driver.place_regions({Region.PROGRAM: len(commands), Region.INPUT: size, Region.OUTPUT: size})
    data = bytes(index * 7 & 255 for index in range(size))
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.write_region(Region.INPUT, 0, data)
    driver.write_region(Region.OUTPUT, 0, bytes(size))
    counters = driver.run(0, len(commands))
    assert driver.read_region(Region.OUTPUT, 0, size) == data
    return counters


def cycles(pair, memory=REFERENCE_MEMORY, **timing):
    pair.rtl.transport.set_timing(MemoryTiming(memory=memory, **timing))
    return copy(pair.rtl).cycles


def address(pair, region):
    return pair.rtl.read(f"{region.name}_BASE")


def fails(pair):
    """Run the copy, which must stop; return the fault after checking that a reset helps."""
    with pytest.raises(DeviceFaultError) as stopped:
        copy(pair.rtl)
    pair.rtl.transport.set_timing(MemoryTiming())
    pair.rtl.reset()
    copy(pair.rtl)
    return stopped.value


def test_default_timing_moves_a_beat_a_cycle(pair):
    counters = copy(pair.rtl)
    beats = 8 * ROW_BYTES // pair.config.bus_bytes
    # Commands are five instruction words.
    assert counters.values["read_beats"] == beats + 5 * 16 // pair.config.bus_bytes
    assert counters.values["write_beats"] == beats
    assert 2 * beats < counters.cycles < 2.3 * beats


def test_equal_seeds_give_equal_cycles(pair):
    one, again, other = (
        cycles(pair, stall_per_1024=300, latency_jitter=40, seed=seed) for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


def test_read_latency_delays(pair):
    # The commands and the first data wait in turn; bursts under way hide the rest.
    assert 20 <= cycles(pair, Memory(read_latency=42)) - cycles(pair) <= 30


def test_latency_of_single_bursts_is_not_hidden(pair):
    fast, slow = (
        cycles(pair, Memory(read_latency=latency, outstanding=1)) for latency in (32, 132)
    )
    bursts = 8 * ROW_BYTES // (pair.config.burst_beats * pair.config.bus_bytes)
    assert slow - fast >= bursts * 100


def test_write_latency_delays_the_last_response(pair):
    assert cycles(pair, Memory(write_latency=108)) - cycles(pair) >= 100


@pytest.mark.parametrize("part", ["1/2", "1/3", "3/4", "5/7"])
def test_bandwidth_limits_reads_and_writes(pair, part):
    bus, reference = pair.config.bus_bytes, cycles(pair)
    longer = cycles(pair, Memory(bytes_per_cycle=Fraction(part) * bus)) - reference
    # What was read is written then, and commands are read before.
    wanted = 2 * 8 * ROW_BYTES / bus * (1 / Fraction(part) - 1)
    assert wanted - 4 <= longer <= wanted + 40


def test_each_row_that_is_opened_takes_its_time(pair):
    size, rows = 8 * ROW_BYTES, []
    for row_bytes in (256, 1024):
        memory = Memory(row_bytes=row_bytes, row_miss_cycles=50)
        rows.append(cycles(pair, memory))
    # Read and written once; the first row of each counts in both.
    assert rows[0] - rows[1] == pytest.approx(2 * 50 * (size // 256 - size // 1024), rel=0.05)


def test_read_error_is_a_fault(pair):
    copy(pair.rtl)
    first = address(pair, Region.INPUT) + 3 * ROW_BYTES
    pair.rtl.transport.set_timing(MemoryTiming(error_first=first, error_end=first + 4))
    fault = fails(pair)
    assert (fault.cause, fault.unit) == (Fault.AXI_READ, "LOAD")
    assert fault.address <= first < fault.address + pair.config.burst_beats * pair.config.bus_bytes


def test_read_error_of_commands_is_a_fault(pair):
    copy(pair.rtl)
    first = address(pair, Region.PROGRAM) + 16
    pair.rtl.transport.set_timing(MemoryTiming(error_first=first, error_end=first + 4))
    fault = fails(pair)
    assert (fault.cause, fault.unit) == (Fault.AXI_READ, "dispatch")


def test_write_error_is_a_fault(pair):
    copy(pair.rtl)
    size = pair.config.burst_beats * pair.config.bus_bytes
    # The response of a burst is that of its last beat.
    first = address(pair, Region.OUTPUT) + 2 * ROW_BYTES
    pair.rtl.transport.set_timing(MemoryTiming(error_first=first, error_end=first + size))
    fault = fails(pair)
    assert (fault.cause, fault.unit) == (Fault.AXI_WRITE, "STORE")
    assert first <= fault.address < first + size


@pytest.mark.parametrize("region", [Region.PROGRAM, Region.INPUT])
def test_an_unmapped_region_is_a_fault(pair, region):
    """The interconnect answers DECERR."""
    copy(pair.rtl)
    pair.rtl.write(f"{region.name}_BASE", 0x1000)
    with pytest.raises(DeviceFaultError) as stopped:
        pair.rtl.run(0, 80)
    assert stopped.value.cause is Fault.AXI_READ
    assert 0x1000 <= stopped.value.address < 0x1000 + 8 * ROW_BYTES
    pair.rtl.reset()
    copy(pair.rtl)


def test_read_error_counts_the_loads_that_are_under_way(pair):
    """An earlier LOAD may be unfinished when the first bytes of the next one arrive."""
    width = pair.config.bus_bytes
    load = {"region": Region.INPUT, "rows": 1, "planes": 1}
    instructions = [
        Instruction(Opcode.LOAD, {**load, "dram_offset": 8 * n, "spad_addr": 8 * n, "row_bytes": 8})
        for n in range(16)
    ]
    driver = pair.rtl
    commands = b"".join(map(pack, [*instructions, Instruction(Opcode.END)]))
    driver.place_regions({Region.PROGRAM: len(commands), Region.INPUT: 128})
    driver.write_region(Region.PROGRAM, 0, commands)
    for number in range(16):
        first = address(pair, Region.INPUT) + 8 * number
        driver.transport.set_timing(MemoryTiming(error_first=first, error_end=first + 1))
        with pytest.raises(DeviceFaultError) as stopped:
            driver.run(0, len(commands))
        fault = stopped.value
        assert (fault.cause, fault.unit) == (Fault.AXI_READ, "LOAD")
        assert (fault.index, fault.address) == (number, first // width * width)
        driver.reset()


@pytest.mark.parametrize(
    ("offset", "size", "room", "index", "opcode"),
    [
        *((low, 48, 0, 0, 0) for low in (1, 4, 8, 15)),
        *((16, n, 0, 0, 0) for n in (0, 8, 40, 49)),
        *((16, 48, room, 0, opcode) for room, opcode in ((8, 0), (15, 0), (16, 1), (31, 1))),
        *((16, 48, room, 1, 0) for room in (32, 40, 47)),
        (80, 16, 0, 0, 0),
        (96, 16, 0, 0, 0),
    ],
)
def test_commands_that_are_no_run_of_words(pair, offset, size, room, index, opcode):
    """Chip and model leave the same record; `room` ends the region after the offset."""
    load = Instruction(Opcode.LOAD, {"row_bytes": 4, "rows": 1, "planes": 1, "fill": 1})
    end = pack(Instruction(Opcode.END))
    for driver in pair:
        driver.place_regions({Region.PROGRAM: 80})
        driver.write_region(Region.PROGRAM, 0, end + pack(load) + end + end)
        driver.write("PROGRAM_BYTES", offset + room if room else 80)
        with pytest.raises(DeviceFaultError) as stopped:
            driver.run(offset, size)
        assert stopped.value.cause is Fault.COMMAND_RANGE
        record = driver.read("FAULT"), driver.read("FAULT_INDEX"), driver.read("FAULT_ADDRESS")
        assert record == (Fault.COMMAND_RANGE | opcode << 8, index, 0)
        driver.reset()


def test_frozen_memory_is_a_fault(pair):
    pair.rtl.transport.set_timing(MemoryTiming(frozen=True))
    pair.rtl.write("TIMEOUT", 5000)
    before = pair.rtl.transport.elapsed
    with pytest.raises(DeviceFaultError) as stopped:
        copy(pair.rtl)
    assert stopped.value.cause is Fault.TIMEOUT
    assert 5000 < pair.rtl.transport.elapsed - before < 5500


def test_memory_that_freezes_midway_is_a_fault(pair):
    chip = pair.rtl.transport
    pair.rtl.write("TIMEOUT", 5000)
    wait = chip.wait_interrupt

    def freeze_later(limit):
        elapsed = wait(1000)
        chip.set_timing(MemoryTiming(frozen=True))
        return elapsed + wait(limit)

    chip.wait_interrupt = freeze_later
    try:
        with pytest.raises(DeviceFaultError) as stopped:
            copy(pair.rtl)
    finally:
        del chip.wait_interrupt
    assert stopped.value.cause is Fault.TIMEOUT
    assert stopped.value.unit == "LOAD"
    # The bus owes answers: once the memory gives them, a reset ends.
    assert pair.rtl.read("STATUS") == 4
    chip.set_timing(MemoryTiming())
    pair.rtl.reset()
    copy(pair.rtl)


def test_reset_midway(pair, seed):
    stream = random_stream(seed, pair.config)
    expected = run_stream(pair.model, stream)
    state = read_state(pair.model)
    run_stream(pair.rtl, stream)
    for after in (1, 40, 200, 700, 1500):
        pair.start_stalls(after)
        pair.rtl.write("IRQ_STATUS", 3)
        pair.rtl.write("CONTROL", 1)
        pair.rtl.transport.wait_interrupt(after)
        pair.rtl.reset()
        clear_state(pair.rtl)
        assert run_stream(pair.rtl, stream) == expected
        assert read_state(pair.rtl) == state


def test_an_interruption_midway(pair, monkeypatch):
    chip = pair.rtl.transport
    whole = chip.wait_interrupt

    def impatient(_cycles):
        whole(300)
        raise KeyboardInterrupt

    monkeypatch.setattr(chip, "wait_interrupt", impatient)
    with pytest.raises(KeyboardInterrupt):
        copy(pair.rtl)
    monkeypatch.undo()
    copy(pair.rtl, rows=5)


def test_a_simulation_that_has_ended(pair):
    chip = open_device("rtl", pair.config, memory_bytes=1 << 16).transport
    chip.close()
    chip.close()
    for use in (lambda: chip.read32(0), lambda: chip.write32(0, 0), lambda: chip.elapsed):
        with pytest.raises(DeviceError, match="the device was closed"):
            use()


def test_no_such_register(pair):
    for access in (pair.rtl.transport.read32, lambda at: pair.rtl.transport.write32(at, 0)):
        with pytest.raises(OSError, match=r"register 0x7fc failed with response 2"):
            access(0x7FC)


def test_no_such_memory(pair):
    chip = pair.rtl.transport
    for at in (MEMORY_BASE - 1, MEMORY_BASE + chip.memory_bytes - 3):
        with pytest.raises(OSError, match="outside external memory"):
            chip.read_block(at, 4)
        with pytest.raises(OSError, match="outside external memory"):
            chip.write_block(at, bytes(4))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_waves_on_a_full_disk(pair, tmp_path):
    """Verilator's own file ends the process."""
    waves = tmp_path / "waves.vcd"
    waves.symlink_to("/dev/full")
    with pytest.raises(DeviceError, match=r"waves cannot be written to .*: no space left") as told:
        open_device("rtl", pair.config, memory_bytes=1 << 16, waves=waves).close()
    assert "--waves-from" in told.value.hint


@pytest.mark.slow
def test_waves(pair, tmp_path):
    waves = tmp_path / "waves.vcd"
    driver = open_device("rtl", pair.config, memory_bytes=1 << 16, waves=waves)
    copy(driver)
    driver.transport.close()
    text = waves.read_text()
    assert "$enddefinitions" in text
    for name in ("irq", "m_axi_araddr", "s_axil_awaddr"):
        assert f" {name}" in text


def test_a_known_build_is_not_made_again(pair, monkeypatch):
    """Even the Verilog is not generated again, as long as the sources do not change."""
    monkeypatch.setattr(simulator, "_build", None)
    assert simulator.build(pair.config).is_file()


def test_every_input_of_a_build_selects_a_library(pair, tmp_path, monkeypatch):
    """Harness, configuration, tracing and probes each select a different library."""
    known = {
        simulator.source_digest(PRESETS["nano"], "", "none"),
        simulator.source_digest(PRESETS["nano"], "vcd", "none"),
        simulator.source_digest(PRESETS["nano"], "", "events"),
        simulator.source_digest(PRESETS["nano"], "", "lines"),
        simulator.source_digest(PRESETS["small"], "", "none"),
    }
    harness = tmp_path / "harness.cpp"
    harness.write_text(simulator._HARNESS.read_text() + "\n")
    monkeypatch.setattr(simulator, "_HARNESS", harness)
    known.add(simulator.source_digest(PRESETS["nano"], "", "none"))
    assert len(known) == 6


def test_edits_are_built_again(pair, tmp_path, monkeypatch):
    """A change of the harness or the generated text is built again; anything else is not."""
    outputs, verilog = [], "module matloom(); endmodule\n"

    def pretend(*, output, **_options):
        outputs.append(output)
        output.write_bytes(b"")

    def generate(config):
        return Chip(config=config, verilog=verilog, sidecar={"top": "matloom"})

    harness = tmp_path / "harness.cpp"
    harness.write_text("// one\n")
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(simulator, "compile_library", pretend)
    monkeypatch.setattr(simulator, "_HARNESS", harness)
    monkeypatch.setattr("matloom_rtl.generate.generate", generate)
    for line in ("", "", "// two\n", ""):
        harness.write_text(harness.read_text() + line)
        simulator.build(pair.config)
    assert len(outputs) == len(set(outputs)) == 2
    # As after an edit of the hardware.
    shutil.rmtree(tmp_path / "simulators" / "known")
    verilog += "// edited\n"
    simulator.build(pair.config)
    assert len(outputs) == len(set(outputs)) == 3


def test_sources_are_written_once_however_many_build(pair, tmp_path, monkeypatch):
    """The second process finds the library, and does not touch the files of the first."""
    together, written, built = threading.Barrier(2), [], []

    class Slow(Chip):
        def write(self, folder):
            written.append(folder)
            return super().write(folder)

    def generate(config):
        together.wait(timeout=30)
        return Slow(
            config=config, verilog="module matloom(); endmodule\n", sidecar={"top": "matloom"}
        )

    def pretend(*, sources, output, **_options):
        time.sleep(0.3)
        built.append(sources[0].read_text())
        output.write_bytes(b"")

    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(simulator, "compile_library", pretend)
    monkeypatch.setattr("matloom_rtl.generate.generate", generate)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(simulator.build, [pair.config] * 2)
    assert first == second
    assert len(written) == 1
    assert built == ["module matloom(); endmodule\n"]
