"""Every cause of a fault: the right record, no stray writes, and a working chip afterwards."""

import cocotb
from bench import BUSY, DONE, FAULT, Bench
from cocotb.triggers import ClockCycles
from jobs import Job, checkup, run_model, transfer

from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import UNITS, Opcode, Region
from matloom.device.model import Engine
from matloom.verification.random_programs import random_stream

SIZE = 1024
MUTANTS = 12
_END = Instruction(Opcode.END, {})


def _load(region=Region.INPUT, row_bytes=64, **fields):
    """Return a LOAD of one row."""
    return Instruction(*transfer(Opcode.LOAD, region, row_bytes, **fields))


def _store(region=Region.OUTPUT, row_bytes=64, **fields):
    """Return a STORE of one row."""
    return Instruction(*transfer(Opcode.STORE, region, row_bytes, **fields))


def _exec(**fields):
    """Return an EXEC of a single vector."""
    ones = ("input_rows", "input_row_bytes", "width", "height", "kernel_rows", "kernel_cols")
    values = {**dict.fromkeys((*ones, "blocks", "oc_blocks"), 1), **fields}
    return Instruction(Opcode.EXEC, values)


def _post(**fields):
    """Return a POST of a single vector."""
    values = {"width": 1, "height": 1, "oc_blocks": 1, "tail": 1, **fields}
    return Instruction(Opcode.POST, values)


def _with_reserved_bit(instruction):
    """Return the instruction with its last bit set."""
    raw = bytearray(pack(instruction))
    raw[-1] |= 0x80
    return bytes(raw)


def _bad_instructions(config):
    """Return instructions that the dispatcher must refuse, by the cause of the fault."""
    spad, entries = config.spad_bytes, config.acc_entries
    return {
        Fault.ILLEGAL_OPCODE: [b"\x05" * 16, b"\xff" * 16],
        Fault.ILLEGAL_FIELD: [
            _load(rows=0),
            _store(fill=1),
            _exec(mode=1),
            _post(tail=config.columns + 1),
            _post(rounding=2),
            _load(spad_addr=2**24 - 1),
            _post(acc_addr=2**16 - 1),
            _with_reserved_bit(_END),
            _with_reserved_bit(_post()),
        ],
        Fault.SPAD_RANGE: [
            _load(spad_addr=spad - 63),
            _load(rows=2, planes=3, spad_row_step=100, spad_plane_step=spad // 2 - 81),
            _store(spad_addr=spad - 1),
            _exec(input_addr=spad - 1, input_row_bytes=2),
            _exec(weight_addr=spad - config.tile_bytes + config.weight_boundary),
            _exec(kernel_rows=255, kernel_cols=255, blocks=4095, oc_blocks=4095),
            _post(dest_addr=spad - 1, tail=2),
            _post(param_addr=spad - 1, channel_bias=1),
        ],
        Fault.ACC_RANGE: [
            _exec(acc_addr=entries - 1, width=2),
            _exec(width=4095, height=4095),
            _post(acc_addr=entries - 1, height=2),
            _post(source=1, destination=2, acc_addr=entries - 1, width=2),
        ],
        Fault.DRAM_RANGE: [
            _load(dram_offset=SIZE - 63),
            _load(dram_offset=2**32 - 32),
            _store(rows=2, dram_row_step=SIZE - 63),
            _store(planes=4095, dram_plane_step=2**24 - 1),
        ],
        Fault.READ_ONLY_REGION: [_store(region=Region.INPUT), _store(region=Region.PROGRAM)],
        Fault.DEPENDENCY: [
            _load(wait_load=2),
            _exec(wait_post=1),
            _post(wait_exec=63),
            Instruction(Opcode.END, {"wait_store": 1}),
        ],
        Fault.COMMAND_RANGE: [b"", pack(_post())[:32], pack(_load())[:16]],
    }


def _job(*instructions):
    """Return a job of instructions, with INPUT, OUTPUT and ARENA filled with zeros."""
    return Job.of(instructions, **dict.fromkeys(("input", "output", "arena"), bytes(SIZE)))


async def _expect_fault(bench, job, bad=None, silent=None):
    """Run a job that stops with a fault; only OUTPUT and ARENA may change.

    `bad` and `silent` are (region, byte) pairs that answer with an error or not at all. Return the
    record and the bus address of `bad`.
    """
    await bench.place(job)
    memory = bench.memory
    before = bytearray(memory.content)
    if bad:
        memory.errors = [bench.span(job, bad[0], bad[1], bad[1] + 1)]
    if silent:
        memory.silent = [bench.span(job, silent[0], silent[1], silent[1] + 1)]
    await bench.start()
    status = await bench.finish()
    assert status == FAULT, f"STATUS must be {FAULT}, not {status:#x}"
    record = await bench.record()
    memory.speak()
    await bench.reset()
    assert await bench.record() == [0, 0, 0]
    bench.check_traffic()
    for first, end in memory.writable:
        window = slice(first - memory.base, end - memory.base)
        before[window] = memory.content[window]
    bench.expect_memory(before)
    address = memory.errors[0][0] if bad else None
    memory.errors = []
    return record, address


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def each_bad_instruction_leaves_the_models_record(dut):
    bench = await Bench.open(dut)
    for cause, instructions in _bad_instructions(bench.config).items():
        for bad in instructions:
            # A good one before it, so that the record's index says something.
            job = _job(_load(), bad)
            _regions, fault = run_model(Engine(bench.config), job)
            assert fault is not None
            assert fault.cause == cause, f"{bad} must be {cause.name}"
            record, _address = await _expect_fault(bench, job)
            expected = [cause | fault.opcode << 8, fault.index, fault.address]
            assert record == expected, f"{bad} must leave {expected}, not {record}"
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def nothing_is_fetched_from_outside_the_region(dut):
    bench = await Bench.open(dut)
    job = _job(_load(), _load())
    size = job.command_bytes
    for offset, count in ((0, size + 16), (size, 16), (size + 4096, 64), (0, 0), (32, 2**31)):
        wrong = Job(regions=job.regions, command_offset=offset, command_bytes=count)
        record, _address = await _expect_fault(bench, wrong)
        assert record[0] & 15 == Fault.COMMAND_RANGE
    await bench.compare(checkup(bench.config, bench.random))


def _mutant(bench):
    """Return a random stream with flipped bits in one instruction, and its expected fault."""
    random, config = bench.random, bench.config
    while True:
        stream = random_stream(random.getrandbits(32), config, length=3)
        parts = [pack(instruction) for instruction in stream.instructions]
        number = random.randrange(len(parts))
        part = bytearray(parts[number])
        for _flip in range(random.choice((1, 1, 4))):
            part[random.randrange(len(part))] ^= 1 << random.randrange(8)
        parts[number] = bytes(part)
        names = {region.name.lower(): data for region, data in stream.regions.items()}
        job = Job.of(parts, **names)
        _regions, fault = run_model(_Checker(config), job)
        # What flipped bits leave legal may run forever, so the fault must be its own.
        if fault is not None and fault.index == number:
            return job, fault


class _Checker(Engine):
    """The model's checks, without executing."""

    def _execute(self, instruction):
        pass


@cocotb.test(timeout_time=40, timeout_unit="ms")
async def flipped_bits_leave_the_models_record(dut):
    bench = await Bench.open(dut)
    for _ in range(MUTANTS):
        job, fault = _mutant(bench)
        dut._log.info("%s", fault)
        record, _address = await _expect_fault(bench, job)
        assert record == [fault.cause | fault.opcode << 8, fault.index, fault.address]
    await bench.compare(checkup(bench.config, bench.random))


def _burst_at(bursts, address, width):
    """Return the start address of the burst that contains the byte at an address."""
    (found,) = {
        first
        for first, beats in bursts
        if first // width * width <= address < first // width * width + beats * width
    }
    return found


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def read_errors_name_the_burst(dut):
    bench = await Bench.open(dut)
    width = bench.config.bus_bytes
    unit = 1 + UNITS.index(Opcode.LOAD)
    # Not in a beat of the first and the third LOAD, from the next one on.
    first = max(8, width)
    for at in (first, *(bench.random.randrange(first, SIZE) for _ in range(4))):
        job = _job(_load(row_bytes=8), _load(row_bytes=SIZE), _load(row_bytes=8), _END)
        bad = Region.INPUT, at
        record, address = await _expect_fault(bench, job, bad=bad)
        burst = _burst_at(bench.monitor.reads, address, width)
        assert record == [Fault.AXI_READ | unit << 4 | Opcode.LOAD << 8, 1, burst]
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def fetch_errors_name_the_burst(dut):
    bench = await Bench.open(dut)
    for _ in range(5):
        job = _job(*[_load(row_bytes=4)] * 30, _END)
        bad = Region.PROGRAM, bench.random.randrange(job.command_bytes)
        record, address = await _expect_fault(bench, job, bad=bad)
        burst = _burst_at(bench.monitor.reads, address, bench.config.bus_bytes)
        assert record[0] == Fault.AXI_READ
        assert record[2] == burst
        # An index up to which commands came, not beyond the first bad byte.
        assert record[1] <= bad[1] // 32
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def write_errors_name_the_burst(dut):
    bench = await Bench.open(dut)
    unit = 1 + UNITS.index(Opcode.STORE)
    for _ in range(5):
        stores = _store(row_bytes=8), _store(row_bytes=SIZE // 2, dram_offset=SIZE // 2)
        job = _job(_load(row_bytes=SIZE), *stores, _store(row_bytes=8), _END)
        bad = Region.OUTPUT, bench.random.randrange(SIZE // 2, SIZE)
        record, address = await _expect_fault(bench, job, bad=bad)
        burst = _burst_at(bench.monitor.writes, address, bench.config.bus_bytes)
        assert record == [Fault.AXI_WRITE | unit << 4 | Opcode.STORE << 8, 1, burst]
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_silent_memory_is_a_timeout(dut):
    bench = await Bench.open(dut)
    job = _job(_load(), _store(wait_load=1), _END)
    silences = ((Region.PROGRAM, 0, None), (Region.INPUT, 9, Opcode.LOAD))
    for region, at, opcode in (*silences, (Region.OUTPUT, 9, Opcode.STORE)):
        limit = bench.random.randint(1500, 2500)
        await bench.write("TIMEOUT", limit)
        dut._log.info("silence in %s", region.name)
        record, _address = await _expect_fault(bench, job, silent=(region, at))
        unit = 0 if opcode is None else 1 + UNITS.index(opcode)
        assert record[0] == Fault.TIMEOUT | unit << 4 | unit << 8
        assert record[2] == 0
        cycles = await bench.read("CYCLES")
        assert limit <= cycles
        await bench.compare(checkup(bench.config, bench.random))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_timeout_of_zero_waits_for_ever(dut):
    bench = await Bench.open(dut)
    job = checkup(bench.config, bench.random)
    await bench.write("TIMEOUT", 0)
    await bench.place(job)
    bench.memory.silent = [bench.span(job, Region.INPUT)]
    await bench.start()
    await ClockCycles(dut.clk, 4000)
    assert await bench.read("STATUS") == BUSY
    bench.memory.speak()
    assert await bench.finish() == DONE
