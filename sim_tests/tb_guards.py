"""LIMIT and parity, which no preset has: fault records, and a working chip afterwards."""

import os

import cocotb
from bench import Bench
from cocotb.triggers import ClockCycles
from jobs import checkup
from tb_faults import _END, SIZE, _exec, _expect_fault, _job, _load, _post, _store

from matloom.arch.config import load_config
from matloom.arch.csr import Fault
from matloom.arch.isa import UNITS, Opcode

_CONFIG = load_config(os.environ["MATLOOM_CONFIG"])
_limited = cocotb.test(timeout_time=10, timeout_unit="ms", skip=not _CONFIG.time_limit)
_checked = cocotb.test(timeout_time=10, timeout_unit="ms", skip=not _CONFIG.parity)

#: The memory that a parity record tells of, of two.
_ACC = 1


def _long():
    """Return one instruction for each unit that takes a few hundred cycles."""
    many = {"width": 16, "height": 8}
    return {
        Opcode.LOAD: _load(row_bytes=SIZE),
        Opcode.EXEC: _exec(**many, input_row_bytes=8),
        Opcode.POST: _post(**many, x_step=4, source_pitch=64, dest_pitch=64),
        Opcode.STORE: _store(row_bytes=SIZE),
    }


def _record(cause, opcode):
    """Return the first word of the fault record of a unit's instruction."""
    return cause | 1 + UNITS.index(opcode) << 4 | opcode << 8


@_limited
async def what_takes_too_long_is_named(dut):
    bench = await Bench.open(dut)
    for opcode, instruction in _long().items():
        limit = bench.random.randint(20, 60)
        # A short one of its unit before it, so that the record's index says something.
        short = {Opcode.LOAD: _load, Opcode.STORE: _store}.get(opcode)
        before = [short(row_bytes=4)] if short else []
        await bench.write("LIMIT", limit)
        record, _address = await _expect_fault(bench, _job(*before, instruction, _END))
        assert record == [_record(Fault.LIMIT, opcode), len(before), 0]
        assert await bench.read("CYCLES") > limit
        await bench.write("LIMIT", 0)
        await bench.compare(checkup(bench.config, bench.random))


@_limited
async def a_limit_that_none_reaches_changes_nothing(dut):
    bench = await Bench.open(dut)
    for limit in (0, 2**20, 2**32 - 1):
        await bench.write("LIMIT", limit)
        await bench.compare(checkup(bench.config, bench.random))


@_checked
async def a_bit_that_flips_in_a_run_is_noticed(dut):
    """A bit that flips in an accumulator entry gives a parity fault when a POST reads it."""
    bench = await Bench.open(dut)
    bank = dut.core.accumulators.bank_0
    many = {"width": 16, "height": 8}
    elsewhere = _exec(**many, input_row_bytes=8, acc_addr=bench.config.acc_entries // 2)
    job = _job(_load(), elsewhere, _post(**many, x_step=4, source_pitch=64, dest_pitch=64), _END)
    for _ in range(4):
        entry, bit = bench.random.randrange(96, 128), bench.random.randrange(len(bank[0]))
        kept = int(bank[entry].value)
        flip = cocotb.start_soon(_flip(bench, bank[entry], kept ^ 1 << bit))
        record, _address = await _expect_fault(bench, job)
        assert flip.done()
        assert record == [_record(Fault.PARITY, Opcode.POST), 0, _ACC]
        bank[entry].value = kept
        await bench.compare(checkup(bench.config, bench.random))


async def _flip(bench, word, value):
    """Change a word of a memory during a run."""
    while not int(bench.dut.m_axi_arvalid.value):
        await ClockCycles(bench.dut.clk, 1)
    await ClockCycles(bench.dut.clk, bench.random.randrange(20))
    assert not int(bench.dut.irq.value)
    word.value = value
