"""Bench around the chip: clock, reset, memory, register access, bus monitor, and jobs."""

import logging
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.task import resume
from cocotb.triggers import (
    ClockCycles,
    First,
    RisingEdge,
    SimTimeoutError,
    Timer,
    with_timeout,
)
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from external_memory import ExternalMemory
from jobs import run_model
from protocol import Monitor

from matloom.arch.config import load_config
from matloom.arch.csr import COUNTERS, register
from matloom.arch.isa import Region
from matloom.device.model import Engine

PERIOD_NS = 10
MEMORY_BYTES = 1 << 20
START, RESET = 1, 2
BUSY, DONE, FAULT, RESETTING = 1, 2, 4, 8

#: Also the very end of the address space, where sums of addresses overflow.
_BASES = (0, 0x8000_0000, 2**32 - MEMORY_BYTES)


def stalls(generator, share):
    """Yield for each cycle whether a channel pauses, with probability `share`."""
    while True:
        rest = generator.random() < share
        for _ in range(generator.choice((1, 1, 2, 7))):
            yield rest


class Bench:
    """One chip under test; everything random follows from the test's seed.

    Members
    -------
    config, random, memory, monitor:
        The chip's configuration, the test's generator, and the parts around the chip.
    model:
        The functional model, which runs every job as well; see `compare`.
    """

    def __init__(self, dut):
        self.dut = dut
        self.config = load_config(os.environ["MATLOOM_CONFIG"])
        # cocotb seeds the module's generator with --seed and the name of the test.
        self.random = random.Random(random.getrandbits(64))
        self.model = Engine(self.config)
        self.memory = ExternalMemory(
            dut, self.config, self.random, self.random.choice(_BASES), MEMORY_BYTES
        )
        self.monitor = Monitor(dut, self.config)
        bus = AxiLiteBus.from_prefix(dut, "s_axil")
        self._registers = AxiLiteMaster(bus, dut.clk, dut.rst)
        self._bases = {}
        # A line for each burst would hide all others.
        parts = (*self._registers_parts(), *self.memory.parts)
        for part in parts:
            part.log.setLevel(logging.WARNING)

    def _registers_parts(self):
        """Return both parts of cocotbext-axi's register master: for writes and for reads."""
        return self._registers.write_if, self._registers.read_if

    @classmethod
    async def open(cls, dut):
        """Return a bench with the clock running and the chip out of reset."""
        dut.rst.value = 1
        cocotb.start_soon(Clock(dut.clk, PERIOD_NS, unit="ns").start())
        bench = cls(dut)
        share = bench.random.choice((0, 0.05, 0.3, 0.6))
        dut._log.info("stalls in %s of all cycles, memory at %#x", share, bench.memory.base)
        writes, reads = bench._registers_parts()
        channels = (
            *bench.memory.channels.values(),
            *(writes.aw_channel, writes.w_channel, writes.b_channel),
            *(reads.ar_channel, reads.r_channel),
        )
        if share:
            for channel in channels:
                generator = random.Random(bench.random.getrandbits(64))
                channel.set_pause_generator(stalls(generator, share))
        await bench.hard_reset()
        cocotb.start_soon(bench.monitor.run())
        return bench

    async def hard_reset(self, cycles=4):
        """Assert the reset of the chip and of everything on its buses."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, cycles)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    async def read_raw(self, offset):
        """Read a register; return its value and the bus response."""
        answer = await self._registers.read(offset, 4)
        return int.from_bytes(answer.data, "little"), answer.resp

    async def write_raw(self, offset, data, strobes=15):
        """Write the bytes of a register that `strobes` select; return the bus response."""
        bus = self._registers.write_if
        address = bus.aw_channel._transaction_obj(awaddr=offset, awprot=0)
        word = int.from_bytes(data, "little")
        await bus.aw_channel.send(address)
        await bus.w_channel.send(bus.w_channel._transaction_obj(wdata=word, wstrb=strobes))
        return int((await bus.b_channel.recv()).bresp)

    async def read(self, name):
        """Return the value of the register `name`; reading it must succeed."""
        value, response = await self.read_raw(register(name).offset)
        assert response == AxiResp.OKAY, f"reading {name} must succeed"
        return value

    async def write(self, name, value):
        """Write a value to the register `name`; this must succeed."""
        response = await self.write_raw(register(name).offset, value.to_bytes(4, "little"))
        assert response == AxiResp.OKAY, f"writing {name} must succeed"

    async def place(self, job):
        """Place a job's regions at random in memory, set the registers, clear the interrupt."""
        width = self.config.bus_bytes
        cursor = self.memory.base
        order = list(Region)
        self.random.shuffle(order)
        room = MEMORY_BYTES - sum(len(data) + 2 * width for data in job.regions.values())
        for region in order:
            data = job.regions[region]
            gap = self.random.choice((width, self.random.randrange(min(8192, room // 4))))
            base = -(-(cursor + gap) // width) * width
            self._bases[region] = base
            self.put(region, 0, data)
            cursor = base + -(-len(data) // width) * width
            await self.write(f"{region.name}_BASE", base)
            await self.write(f"{region.name}_BYTES", len(data))
        self.memory.readable = [self.span(job, region) for region in Region]
        self.memory.writable = [self.span(job, region) for region in (Region.OUTPUT, Region.ARENA)]
        await self.write("COMMAND_OFFSET", job.command_offset)
        await self.write("COMMAND_BYTES", job.command_bytes)
        await self.write("IRQ_STATUS", 3)
        await self.write("IRQ_ENABLE", 3)

    def span(self, job, region, first=0, end=None):
        """Return the bus addresses of bytes `first` to `end` of a region."""
        base = self._bases[region]
        return base + first, base + (len(job.regions[region]) if end is None else end)

    def put(self, region, offset, data):
        """Store bytes in external memory, at an offset in a region."""
        start = self._bases[region] + offset - self.memory.base
        self.memory.content[start : start + len(data)] = data

    async def start(self):
        """Start the command buffer that was placed, and count bursts from here."""
        self.monitor.restart()
        await self.write("CONTROL", START)

    async def finish(self, cycles=400_000):
        """Wait for the interrupt, and fail after `cycles` cycles; return STATUS."""
        if not int(self.dut.irq.value):
            try:
                await with_timeout(RisingEdge(self.dut.irq), cycles * PERIOD_NS, "ns")
            except SimTimeoutError:
                status, counters = await self.read("STATUS"), await self.counters()
                raise AssertionError(
                    f"a run must end within {cycles} cycles; STATUS {status:#x}, {counters}"
                ) from None
        return await self.read("STATUS")

    async def reset(self):
        """Reset the engine by its register, and wait until it is usable again."""
        await self.write("CONTROL", RESET)
        while (status := await self.read("STATUS")) & RESETTING:
            pass
        assert status == 0, f"STATUS must be 0 after a reset, not {status:#x}"
        assert self.monitor.idle, "a reset must wait for the bus"
        await self.write("IRQ_STATUS", 3)

    async def record(self):
        """Return the fault record: FAULT, FAULT_INDEX, FAULT_ADDRESS."""
        return [await self.read(name) for name in ("FAULT", "FAULT_INDEX", "FAULT_ADDRESS")]

    async def compare(self, job):
        """Run a job on the chip and on the model, and check that all of memory is equal."""
        await self.place(job)
        regions, fault = run_model(self.model, job)
        assert fault is None, f"the job itself is at fault: {fault}"
        expected = bytearray(self.memory.content)
        for region, data in regions.items():
            start = self._bases[region] - self.memory.base
            expected[start : start + len(data)] = data
        await self.start()
        status = await self.finish()
        assert status == DONE, f"STATUS must be {DONE}, not {status:#x}: {await self.record()}"
        self.check_traffic()
        self.expect_memory(expected)
        return regions

    def expect_memory(self, expected):
        """Check that every byte of memory is as given."""
        found = self.memory.content
        if found != expected:
            first = next(n for n in range(len(found)) if found[n] != expected[n])
            places = {region.name: f"{base:#x}" for region, base in sorted(self._bases.items())}
            listed = ", ".join(f"{name} {base}" for name, base in places.items())
            raise AssertionError(
                f"memory at {self.memory.base + first:#x} must be {expected[first]:#04x}, "
                f"not {found[first]:#04x}; the regions begin at {listed}"
            )

    def check_traffic(self):
        """Check that there were no stray accesses, and nothing is outstanding."""
        assert not self.memory.stray, f"the chip must not do: {self.memory.stray[:3]}"
        assert self.monitor.idle, "the bus must be quiet at the end of a run"

    async def counters(self):
        """Return the values of all performance counters, by name."""
        return {name: await self.read(name.upper()) for name, _doc in COUNTERS}


class SimTransport:
    """A bench as the transport of the unmodified blocking driver; run it under `bridge`."""

    def __init__(self, bench):
        self._bench = bench
        self.memory_base, self.memory_bytes = bench.memory.base, MEMORY_BYTES

    @resume
    async def read32(self, address):
        """Return the register at an address; raise OSError if the chip answers with an error."""
        value, response = await self._bench.read_raw(address)
        if response != AxiResp.OKAY:
            raise OSError(f"reading register {address:#x} must answer OKAY, not {response}")
        return value

    @resume
    async def write32(self, address, value):
        """Write the register at an address; raise OSError if the chip answers with an error."""
        response = await self._bench.write_raw(address, value.to_bytes(4, "little"))
        if response != AxiResp.OKAY:
            raise OSError(f"writing register {address:#x} must answer OKAY, not {response}")

    def read_block(self, address, size):
        """Return bytes of external memory from a bus address on."""
        start = address - self.memory_base
        return bytes(self._bench.memory.content[start : start + size])

    def write_block(self, address, data):
        """Store bytes in external memory from a bus address on."""
        start = address - self.memory_base
        self._bench.memory.content[start : start + len(data)] = data

    @resume
    async def wait_interrupt(self, cycles):
        """Wait for the interrupt, at most `cycles`; return the cycles that passed."""
        before = get_sim_time("ns")
        irq = self._bench.dut.irq
        if not int(irq.value):
            await First(RisingEdge(irq), Timer(cycles * PERIOD_NS, "ns"))
            await RisingEdge(self._bench.dut.clk)
        return int(get_sim_time("ns") - before) // PERIOD_NS
