"""Resets in mid-flight, by register and by wire: the bus ends cleanly, the chip works again."""

import cocotb
from bench import BUSY, Bench
from cocotb.triggers import ClockCycles
from jobs import Job, checkup

from matloom.arch.csr import Access, registers_of

TIMES = 6


async def _interrupt_a_stream(bench):
    """Start a random stream and stop at a random point of its run."""
    job = Job.stream(bench.random.getrandbits(32), bench.config)
    await bench.place(job)
    await bench.start()
    await ClockCycles(bench.dut.clk, bench.random.choice((0, 3, 40, bench.random.randrange(3000))))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_by_register_waits_for_the_bus(dut):
    bench = await Bench.open(dut)
    for _ in range(TIMES):
        await _interrupt_a_stream(bench)
        await bench.reset()
        bench.check_traffic()
        assert await bench.record() == [0, 0, 0]
        # Nothing goes on after the reset.
        before = dict(bench.monitor.counts)
        await ClockCycles(dut.clk, 100)
        assert bench.monitor.counts == before
        assert await bench.read("STATUS") == 0
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_by_register_keeps_the_settings(dut):
    bench = await Bench.open(dut)
    values = {
        item.name: bench.random.getrandbits(item.width)
        for item in registers_of(bench.config)
        if item.access is Access.RW
    }
    for name, value in values.items():
        await bench.write(name, value)
    await bench.reset()
    for name, value in values.items():
        assert await bench.read(name) == value, name


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_by_wire_forgets_everything(dut):
    bench = await Bench.open(dut)
    for _ in range(TIMES):
        await _interrupt_a_stream(bench)
        # Units follow the wire by a cycle: a reset of one cycle would end before theirs begins.
        await bench.hard_reset(cycles=bench.random.randint(2, 5))
        assert await bench.read("STATUS") == 0
        assert await bench.read("IRQ_STATUS") == 0
        for item in registers_of(bench.config):
            if item.access is Access.RW:
                assert await bench.read(item.name) == item.reset, item.name
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_waits_while_the_memory_is_silent(dut):
    bench = await Bench.open(dut)
    await bench.place(checkup(bench.config, bench.random))
    bench.memory.silent = [(0, 2**32)]
    await bench.start()
    while not bench.monitor.counts["read_bursts"]:
        await ClockCycles(dut.clk, 5)
    await bench.write("CONTROL", 2)
    await ClockCycles(dut.clk, 300)
    assert await bench.read("STATUS") == 8
    # A start in the meantime is lost, a second reset changes nothing.
    await bench.write("CONTROL", 1)
    await bench.write("CONTROL", 2)
    assert not await bench.read("STATUS") & BUSY
    bench.memory.speak()
    await bench.reset()
    await bench.compare(checkup(bench.config, bench.random))
