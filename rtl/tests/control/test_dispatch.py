"""Dispatch: every check, compared with the ISA's tables; order of faults; targets."""

import itertools
import random

import pytest
from amaranth.hdl import Array, Module, ResetInserter, Signal

from matloom.arch.config import PRESETS, load_config
from matloom.arch.csr import Fault
from matloom.arch.instruction import (
    Instruction,
    IsaError,
    extent_end,
    illegal_field,
    pack,
    unpack,
)
from matloom.arch.isa import (
    FORMATS,
    INSTRUCTION_WORD_BYTES,
    UNITS,
    WRITABLE_REGIONS,
    AddressSpace,
    Opcode,
    Region,
)
from matloom.verification.random_programs import random_stream
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.layouts import LONGEST_WAIT
from matloom_rtl.testing import cached_unit, simulate

CONFIG = PRESETS["nano"]
#: Words together with floating-point numbers, and what goes with neither.
WORDS = load_config("nano+i16xi8+fp16+float_rows=2+weight_rows=2+tables=1+products=4+curves=1")
#: Without a check of addresses on chip.
UNCHECKED = load_config("nano+checks=0")
REGION_BYTES = (2**15, 6000, 2**32 - 1, 6000)
_CAUSES = {
    AddressSpace.SPAD: Fault.SPAD_RANGE,
    AddressSpace.ACC: Fault.ACC_RANGE,
    AddressSpace.DRAM: Fault.DRAM_RANGE,
}


def verdict(instruction, issued, config=CONFIG):
    """Return the expected fault of an instruction, and its address, by the ISA's tables."""
    if illegal_field(instruction, config):
        return Fault.ILLEGAL_FIELD, None
    if instruction.opcode is Opcode.STORE and instruction.region not in WRITABLE_REGIONS:
        return Fault.READ_ONLY_REGION, None
    for unit in UNITS:
        if getattr(instruction, f"wait_{unit.name.lower()}") > issued[unit]:
            return Fault.DEPENDENCY, None
    for extent in FORMATS[instruction.opcode].extents:
        if not config.checks and extent.memory is not AddressSpace.DRAM:
            continue
        end = extent_end(extent, instruction, config)
        capacity = {
            AddressSpace.SPAD: config.spad_bytes,
            AddressSpace.ACC: config.acc_entries,
        }
        if extent.memory is AddressSpace.DRAM:
            limit = REGION_BYTES[instruction.region]
        else:
            limit = capacity[extent.memory]
        if end is not None and end > limit:
            return _CAUSES[extent.memory], end
    return Fault.NONE, None


def instruction_words(data):
    return [
        int.from_bytes(data[at : at + INSTRUCTION_WORD_BYTES], "little")
        for at in range(0, len(data), INSTRUCTION_WORD_BYTES)
    ]


def with_regions(dut):
    """Return a module that provides the sizes of regions."""
    m = Module()
    m.submodules.dut = dut
    m.d.comb += dut.region_bytes.eq(Array(REGION_BYTES)[dut.region])
    return m


def run(data, *, gaps=0.0, stalls=0.0, seed=0):
    """Dispatch bytes; return (opcode, payload) pairs as issued, the fault, and cycles of issues."""
    dut, generator = cached_unit(Dispatch, CONFIG), random.Random(seed)
    issued, cycles, outcome = [], [], {}
    queues = {unit: getattr(dut, unit.name.lower()) for unit in UNITS}

    async def feed(ctx):
        for instruction_word in instruction_words(data):
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(dut.i.payload, instruction_word)
            ctx.set(dut.i.valid, 1)
            while not outcome:
                _c, _r, ready = await ctx.tick().sample(dut.i.ready)
                if ready:
                    break
            ctx.set(dut.i.valid, 0)
        ctx.set(dut.exhausted, 1)

    async def collect(ctx):
        cycle, taken = 0, [0] * 8
        given = None
        while not outcome:
            for number, queue in enumerate(queues.values()):
                # A queue with room keeps it until something is put there.
                if not ctx.get(queue.ready) or taken[2 * number]:
                    ctx.set(queue.ready, generator.random() >= stalls)
            cycle += 1
            sample = await ctx.tick().sample(
                *(value for queue in queues.values() for value in (queue.valid, queue.ready)),
                *(queue.payload for queue in queues.values()),
                dut.fault,
                dut.fault_address,
                dut.finished,
                dut.index,
                dut.issue,
            )
            taken, payloads = sample[2 : 2 + 8], sample[2 + 8 : 2 + 12]
            fault, address, finished, index, issue = sample[14:]
            for number, unit in enumerate(UNITS):
                if issue >> number & 1:
                    # What was given before, once.
                    assert given[0] is unit
                    issued.append(given)
                    given = None
                    cycles.append(cycle)
                    # Every unit completes at once.
                    count = sum(1 for other, _payload in issued if other is unit)
                    ctx.set(dut.completed[number], count)
                if taken[2 * number] and taken[2 * number + 1]:
                    assert given is None
                    given = unit, payloads[number]
            if fault or finished:
                outcome.update(fault=Fault(fault), address=address, index=index)

    simulate(cached_unit(with_regions, dut), feed, collect, cycles=60000)
    return issued, outcome, cycles


def corrupt(generator, instruction, config):
    """Return the instruction with a field at an extreme of its bits or legal values, or random."""
    item = generator.choice(FORMATS[instruction.opcode].all_fields[1:])
    smallest, largest = generator.choice((item.range, item.limits(config)))
    value = generator.choice((smallest, largest, generator.randint(smallest, largest)))
    return Instruction(instruction.opcode, {**instruction.values, item.name: value})


def test_legal_streams_reach_their_units(seed):
    # Units get more instructions than the longest wait reaches back.
    for k, length in enumerate((12, 12, 30, 200)):
        stream = random_stream(seed + k, CONFIG, length)
        issued, outcome, _cycles = run(stream.commands, gaps=0.2, stalls=0.3, seed=seed)
        assert outcome["fault"] is Fault.NONE
        assert outcome["index"] == len(stream.instructions) - 1
        counts = dict.fromkeys(UNITS, 0)
        for instruction, (unit, payload) in zip(stream.instructions, issued, strict=False):
            assert unit is instruction.opcode
            for number, other in enumerate(UNITS):
                wait = getattr(instruction, f"wait_{other.name.lower()}")
                assert bool(payload.waits >> number & 1) == (wait != 0)
                if wait:
                    assert payload.targets[number] == counts[other] - wait
            counts[unit] += 1


def judge(data, issued, config):
    """Return the expected fault, address and opcode for the bytes of one instruction."""
    opcode = data[0] & 15
    if opcode not in FORMATS:
        return Fault.ILLEGAL_OPCODE, None
    try:
        instruction, _end = unpack(data)
    except IsaError:
        return Fault.ILLEGAL_FIELD, None
    return verdict(instruction, issued, config)


def bad_bytes(generator, instruction, config):
    """Return an instruction's bytes with some corrupted fields, one corrupted bit, or none."""
    for _field in range(generator.choice((0, 1, 1, 1, 2, 3))):
        instruction = corrupt(generator, instruction, config)
    data = bytearray(pack(instruction))
    if generator.random() < 0.2:
        bit = generator.randrange(4, 8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
    if generator.random() < 0.05:
        data[0] = data[0] & 0xF0 | generator.randrange(5, 16)
    return bytes(data)


def without_waits(instruction):
    values = {name: v for name, v in instruction.values.items() if not name.startswith("wait_")}
    return Instruction(instruction.opcode, values)


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "config",
    [CONFIG, pytest.param(WORDS, marks=pytest.mark.slow), UNCHECKED],
    ids=("nano", "words", "unchecked"),
)
def test_corrupted_instructions_fault_as_the_tables_say(seed, config):
    """Dispatch random instructions, with waits on earlier ones; reset after each fault."""
    generator = random.Random(seed)
    reset = Signal()
    dut, seen = Dispatch(config), dict.fromkeys(Fault, 0)
    # After a restart nothing was issued that could be waited for.
    sound = [
        without_waits(instruction) if number % 4 else instruction
        for number in range(40)
        for instruction in random_stream(seed * 1000 + number, config).instructions[:-1]
    ]

    async def restart(ctx):
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        return dict.fromkeys(UNITS, 0)

    async def send(ctx, data):
        """Return the unit that receives the instruction, or the fault and its address."""
        sent = instruction_words(data)
        # Fewer instruction words are asked for where the opcode is none.
        while True:
            ctx.set(dut.i.valid, bool(sent))
            ctx.set(dut.i.payload, sent[0] if sent else 0)
            _clk, _rst, ready, fault, address, opcode, *units = await ctx.tick().sample(
                dut.i.ready, dut.fault, dut.fault_address, dut.fault_opcode, *dut.issue
            )
            if fault:
                assert opcode == data[0] & 15
                return Fault(fault), address
            if any(units):
                return UNITS[units.index(1)], None
            if ready and sent:
                sent.pop(0)

    queues = {unit: getattr(dut, unit.name.lower()) for unit in UNITS}

    async def main(ctx):
        for queue in queues.values():
            ctx.set(queue.ready, 1)
        issued, index = await restart(ctx), 0
        for _number in range(2500):
            data = bad_bytes(generator, generator.choice(sound), config)
            wanted, end = judge(data, issued, config)
            found, address = await send(ctx, data)
            seen[wanted] += 1
            if wanted is Fault.NONE:
                assert found == data[0] & 15
                issued[found] += 1
                index += 1
                assert ctx.get(dut.index) == index
                continue
            assert found is wanted, data.hex()
            assert end is None or address == end % 2**32
            assert ctx.get(dut.index) == index
            issued, index = await restart(ctx), 0

    simulate(ResetInserter(reset)(with_regions(dut)), main, cycles=150_000)
    unreached = {Fault.COMMAND_RANGE, Fault.AXI_READ, Fault.AXI_WRITE, Fault.TIMEOUT, Fault.LIMIT}
    unreached |= {Fault.PARITY}
    if not config.checks:
        unreached |= {Fault.SPAD_RANGE, Fault.ACC_RANGE}
        assert not seen[Fault.SPAD_RANGE]
        assert not seen[Fault.ACC_RANGE]
    assert all(count >= 10 for fault, count in seen.items() if fault not in unreached), seen


def test_huge_products_do_not_wrap():
    """Products of many large factors exceed every memory, whatever their low bits."""
    largest = {
        "input_rows": 1,
        "input_row_bytes": 1,
        "width": 1,
        "height": 1,
        "oc_blocks": 4096 // 16 * 15,
        "kernel_rows": 256 - 16,
        "kernel_cols": 256 - 16,
        "blocks": 4096 - 256,
    }
    exec_values = dict(largest)
    rows = {"row_bytes": 1, "rows": 4095, "planes": 4095, "dram_row_step": 2**24 - 1}
    for victim in (
        Instruction(Opcode.EXEC, exec_values),
        Instruction(Opcode.STORE, {**rows, "region": Region.ARENA}),
        Instruction(Opcode.STORE, {**rows, "region": Region.OUTPUT, "dram_plane_step": 2**24 - 1}),
    ):
        wanted, address = verdict(victim, dict.fromkeys(UNITS, 0))
        assert wanted is not Fault.NONE
        _issued, outcome, _cycles = run(pack(victim))
        assert outcome["fault"] is wanted
        if wanted is Fault.DRAM_RANGE:
            assert outcome["address"] == address % 2**32


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", Fault.COMMAND_RANGE),
        (pack(Instruction(Opcode.EXEC))[:16], Fault.COMMAND_RANGE),
        (bytes([9]) + bytes(15), Fault.ILLEGAL_OPCODE),
        (bytes([15]) + bytes(15), Fault.ILLEGAL_OPCODE),
        (bytes([0]) + bytes(14) + bytes([128]), Fault.ILLEGAL_FIELD),
    ],
)
def test_truncated_and_foreign_bytes(data, cause):
    _issued, outcome, _cycles = run(data)
    assert outcome["fault"] is cause


def test_cycles_of_an_instruction(seed):
    stream = random_stream(seed, CONFIG, length=20)
    _issued, _outcome, cycles = run(stream.commands)
    spacing = [after - before for before, after in itertools.pairwise(cycles)]
    assert 17 <= min(spacing) <= max(spacing) <= 44


def smallest(unit, **waits):
    """Return an instruction of a unit that does as little as possible."""
    row = {"row_bytes": 1, "rows": 1, "planes": 1, "region": Region.ARENA}
    ones = ("input_rows", "input_row_bytes", "kernel_rows", "kernel_cols", "blocks")
    block = {"width": 1, "height": 1, "oc_blocks": 1}
    values = {
        Opcode.LOAD: row,
        Opcode.EXEC: dict.fromkeys(ones, 1) | block,
        Opcode.POST: {**block, "tail": 1, "clamp_high": 1},
        Opcode.STORE: row,
    }
    return Instruction(unit, values[unit] | waits)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("count", [0, 1, 31, 32, 45, 62, 63])
@pytest.mark.parametrize("unit", UNITS)
def test_a_wait_reaches_back_to_the_first_instruction_and_no_further(unit, count):
    """Waiting for more instructions than were issued to a unit is a fault.

    `count` is the number issued, from none to twice the longest wait.
    """
    longest, name = LONGEST_WAIT, f"wait_{unit.name.lower()}"
    other = UNITS[(UNITS.index(unit) + 1) % len(UNITS)]
    before = [*[smallest(unit)] * count, smallest(other, **{name: count})]
    data = b"".join(map(pack, before))
    wait = min(count + 1, longest)
    issued, outcome, _cycles = run(data + pack(smallest(other, **{name: wait})))
    assert issued[count][1].targets[UNITS.index(unit)] == 0
    # After the longest wait that there is comes the end of the buffer.
    wanted = Fault.DEPENDENCY if count < longest else Fault.COMMAND_RANGE
    assert (outcome["fault"], len(issued)) == (wanted, len(before) + (count == longest))


@pytest.mark.fast_cases(9)
@pytest.mark.parametrize("when", range(60, 100, 3))
def test_nothing_is_issued_from_the_cycle_after_halt_on(when):
    """Dispatch resumes when `halt` falls; `when` hits every state of the dispatcher."""
    dut, issues, cycle = cached_unit(Dispatch, CONFIG), [], 0
    units = [Opcode.EXEC, Opcode.LOAD, Opcode.POST, Opcode.STORE, Opcode.LOAD, Opcode.EXEC]
    sent = instruction_words(b"".join(pack(smallest(unit)) for unit in units))

    async def feed(ctx):
        for unit in UNITS:
            ctx.set(getattr(dut, unit.name.lower()).ready, 1)
        for word in sent:
            ctx.set(dut.i.payload, word)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(50)

    async def disturb(ctx):
        nonlocal cycle
        while True:
            cycle += 1
            ctx.set(dut.halt, when <= cycle < when + 100)
            _clk, _rst, issue = await ctx.tick().sample(dut.issue)
            if issue:
                issues.append((cycle, issue))

    simulate(cached_unit(with_regions, dut), feed, cycles=600, background=(disturb,))
    assert [1 << UNITS.index(unit) for unit in units] == [issue for _cycle, issue in issues]
    assert not [at for at, _issue in issues if when < at <= when + 100]
    assert issues[0][0] < when < issues[-1][0] - 100


@pytest.mark.parametrize("last", range(len(UNITS)))
def test_end_awaits_every_unit(last):
    """After one instruction per unit, END finishes one cycle after the last completion."""
    dut = cached_unit(Dispatch, CONFIG)
    sent = [
        instruction_word
        for unit in UNITS
        for instruction_word in instruction_words(pack(smallest(unit)))
    ]

    async def main(ctx):
        for unit in UNITS:
            ctx.set(getattr(dut, unit.name.lower()).ready, 1)
        for instruction_word in [*sent, *instruction_words(pack(Instruction(Opcode.END)))]:
            ctx.set(dut.i.payload, instruction_word)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        for number in range(len(UNITS)):
            if number != last:
                ctx.set(dut.completed[number], 1)
        for _cycle in range(30):
            assert (await ctx.tick().sample(dut.finished, dut.fault))[2:] == (0, 0)
        ctx.set(dut.completed[last], 1)
        shown = [(await ctx.tick().sample(dut.finished))[2] for _cycle in range(4)]
        assert shown == [0, 1, 0, 0]

    simulate(cached_unit(with_regions, dut), main, cycles=400)
