"""The register window: values, access rights, strobes, responses, and the interrupt."""

import cocotb
from bench import BUSY, DONE, FAULT, START, Bench
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp
from jobs import Job, checkup

from matloom.arch.csr import (
    IDENTITY,
    TIMESTAMPS_OFFSET,
    WINDOW_BYTES,
    Access,
    register,
    registers_of,
)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def values_after_reset(dut):
    bench = await Bench.open(dut)
    for item in registers_of(bench.config):
        if item.access in (Access.RW, Access.W1C, Access.WO):
            assert await bench.read(item.name) == item.reset, item.name
    assert await bench.read("ID") == IDENTITY
    assert await bench.read("DIGEST") == bench.config.digest
    assert await bench.read("STATUS") == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def read_only_registers_refuse_writes(dut):
    bench = await Bench.open(dut)
    for item in registers_of(bench.config):
        if item.access is Access.R:
            before = await bench.read(item.name)
            data = bench.random.randbytes(4)
            assert await bench.write_raw(item.offset, data) == AxiResp.SLVERR, item.name
            assert await bench.read(item.name) == before, item.name
    assert await bench.write_raw(TIMESTAMPS_OFFSET + 4, b"mark") == AxiResp.SLVERR


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def offsets_without_a_register_answer_with_an_error(dut):
    bench = await Bench.open(dut)
    known = {item.offset for item in registers_of(bench.config)}
    known |= {TIMESTAMPS_OFFSET + 4 * slot for slot in range(bench.config.timestamps)}
    holes = [offset for offset in range(0, WINDOW_BYTES, 4) if offset not in known]
    holes = [*bench.random.sample(holes, 40), *range(WINDOW_BYTES, 4096, 508)]
    for offset in holes:
        assert (await bench.read_raw(offset))[1] == AxiResp.SLVERR, hex(offset)
        assert await bench.write_raw(offset, b"hole") == AxiResp.SLVERR, hex(offset)
    for slot in range(0, bench.config.timestamps, 7):
        assert (await bench.read_raw(TIMESTAMPS_OFFSET + 4 * slot))[1] == AxiResp.OKAY


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def registers_keep_the_bytes_that_strobes_select(dut):
    bench = await Bench.open(dut)
    plain = [item for item in registers_of(bench.config) if item.access is Access.RW]
    shadow = {item: bytearray(item.reset.to_bytes(4, "little")) for item in plain}
    for _ in range(150):
        item = bench.random.choice(plain)
        strobes, data = bench.random.randrange(16), bench.random.randbytes(4)
        assert await bench.write_raw(item.offset, data, strobes) == AxiResp.OKAY
        for index in range(4):
            if strobes >> index & 1:
                # Bits above the last field do not exist.
                exists = ((1 << item.width) - 1).to_bytes(4, "little")[index]
                shadow[item][index] = data[index] & exists
        other = bench.random.choice(plain)
        assert await bench.read(other.name) == int.from_bytes(shadow[other], "little"), other.name
    for item, value in shadow.items():
        assert await bench.read(item.name) == int.from_bytes(value, "little"), item.name


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_and_writes_at_once_do_not_disturb_each_other(dut):
    bench = await Bench.open(dut)

    async def write():
        for number in range(40):
            await bench.write("INPUT_BASE", number * 0x0101_0101)

    task = cocotb.start_soon(write())
    last = 0
    for _ in range(40):
        assert await bench.read("ID") == IDENTITY
        value = await bench.read("INPUT_BASE")
        assert value % 0x0101_0101 == 0
        assert value >= last
        last = value
    await task


async def _run_without_interrupt(bench, job):
    """Run a job with interrupts disabled; return the final status."""
    await bench.place(job)
    await bench.write("IRQ_ENABLE", 0)
    await bench.start()
    while (status := await bench.read("STATUS")) & BUSY:
        assert not int(bench.dut.irq.value)
    return status


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def the_interrupt_is_the_enabled_causes(dut):
    bench = await Bench.open(dut)
    runs = ((checkup(bench.config, bench.random), DONE, 1), (Job.of([b"\x09" * 16]), FAULT, 2))
    for job, state, event in runs:
        assert await _run_without_interrupt(bench, job) == state
        assert await bench.read("IRQ_STATUS") == event
        for enabled in (0, 3 - event, event, 3):
            await bench.write("IRQ_ENABLE", enabled)
            await ClockCycles(dut.clk, 3)
            assert int(dut.irq.value) == bool(enabled & event)
        # Ones clear, zeros keep, and only under a strobe.
        await bench.write("IRQ_STATUS", 3 - event)
        assert await bench.read("IRQ_STATUS") == event
        await bench.write_raw(register("IRQ_STATUS").offset, b"\xff" * 4, strobes=14)
        assert await bench.read("IRQ_STATUS") == event
        await bench.write("IRQ_STATUS", event)
        assert await bench.read("IRQ_STATUS") == 0
        await ClockCycles(dut.clk, 3)
        assert not int(dut.irq.value)
    await bench.reset()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_start_counts_only_when_idle_and_without_fault(dut):
    bench = await Bench.open(dut)
    job = checkup(bench.config, bench.random)
    await bench.place(job)
    await bench.start()
    await bench.write("CONTROL", START)
    assert await bench.finish() == DONE
    await ClockCycles(dut.clk, 200)
    assert await bench.read("STATUS") == DONE
    assert await bench.read("INSTRUCTIONS") == 5
    bench.check_traffic()

    await bench.place(Job.of([b"\x09" * 16]))
    await bench.start()
    assert await bench.finish() == FAULT
    await bench.write("CONTROL", START)
    await ClockCycles(dut.clk, 50)
    assert await bench.read("STATUS") == FAULT
    await bench.reset()
    await bench.compare(job)
