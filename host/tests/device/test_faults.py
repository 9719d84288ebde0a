"""Every fault in a run leaves the right record, an interrupt and a usable chip.

The bus monitor is on, and external memory changes only in regions that may be written.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import FORMATS, WRITABLE_REGIONS, Opcode, Region
from matloom.device.errors import DeviceFaultError
from matloom.device.model.engine import Engine, EngineFaultError
from matloom.device.rtl import MemoryTiming

pytestmark = pytest.mark.parametrize("pair", ["nano"], indirect=True)

SLAVE_ERROR, DECODE_ERROR = 2, 3
REGION_BYTES = 2048
END = Instruction(Opcode.END)
LOADS = Instruction(Opcode.LOAD, {"row_bytes": 4, "rows": 1, "planes": 1, "fill": 1})


def transfer(opcode, region, row_bytes, **fields):
    values = {"region": region, "row_bytes": row_bytes, "rows": 1, "planes": 1, **fields}
    return Instruction(opcode, values)


BOX = {"rows": 3, "planes": 2, "dram_row_step": 37, "dram_plane_step": 200}
BOX |= {"spad_row_step": 40, "spad_plane_step": 160}

#: Rows of many bursts that begin inside one and inside a beat, rows of few bytes in two planes,
#: bytes that lie apart on chip, which LOAD alone has.
SHAPES = {
    "row": {"row_bytes": 300, "dram_offset": 53},
    "aligned": {"row_bytes": 128, "dram_offset": 64},
    "box": {"row_bytes": 11, "dram_offset": 6, **BOX},
    "apart": {"row_bytes": 70, "dram_offset": 1, "spread": 1},
}


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A command buffer with one long transfer that meets an error, and its bus accesses.

    Members
    -------
    beats:
        Bus offset of each beat in its region, with that of its burst.
    unit:
        Unit in the fault record.
    """

    commands: list[Instruction]
    region: Region
    beats: list[tuple[int, int]] = field(default_factory=list)
    unit: str = ""
    index: int = 0


def beats_of(first, size, bus, window):
    """Return the offsets of burst and beat for each beat of a row; bursts end at each window."""
    row = range(first // bus * bus, first + size, bus)
    return [(max(row[0], beat // window * window), beat) for beat in row]


def load_or_store(config, opcode, region, shape):
    """Return a long transfer of a shape between two short ones."""
    values = {**SHAPES[shape], "region": region}
    long = transfer(opcode, **values)
    bus, window = config.bus_bytes, config.bus_bytes * config.burst_beats
    rows = [
        long.dram_offset + plane * long.dram_plane_step + row * long.dram_row_step
        for plane in range(long.planes)
        for row in range(long.rows)
    ]
    short = transfer(opcode, region, 8, dram_offset=REGION_BYTES - 64, spad_addr=8000)
    return Transfer(
        commands=[LOADS, short, long, short, END],
        region=region,
        beats=[pair for row in rows for pair in beats_of(row, long.row_bytes, bus, window)],
        unit=opcode.name,
        index=1,
    )


def fetch(config):
    """Return a command buffer longer than what is read ahead."""
    commands = [LOADS] * 20 + [END]
    size = len(b"".join(map(pack, commands)))
    bus, window = config.bus_bytes, config.bus_bytes * config.burst_beats
    return Transfer(
        commands=commands,
        region=Region.PROGRAM,
        beats=beats_of(0, size, bus, window),
        unit="dispatch",
    )


def place(driver, commands):
    """Put commands and regions into the chip's memory; return the regions' addresses."""
    raw = b"".join(item if isinstance(item, bytes) else pack(item) for item in commands)
    sizes = dict.fromkeys(Region, REGION_BYTES)
    bases = driver.place_regions({**sizes, Region.PROGRAM: max(len(raw), REGION_BYTES)})
    driver.write_region(Region.PROGRAM, 0, raw)
    noise = np.random.default_rng(0).integers(0, 256, REGION_BYTES, np.uint8).tobytes()
    for region in (Region.INPUT, *WRITABLE_REGIONS):
        driver.write_region(region, 0, noise)
    return bases, len(raw)


def protected(pair, bases):
    """Return the parts of external memory that commands must not write."""
    memory = pair.chip.memory.copy()
    for region in WRITABLE_REGIONS:
        start = bases[region] - pair.chip.memory_base
        memory[start : start + REGION_BYTES] = 0
    return memory


def ends(pair, commands, timing=None, size=None):
    """Run commands that may fault; return the fault or None, after checking that the chip works."""
    driver, chip = pair.rtl, pair.chip
    bases, whole = place(driver, commands)
    before, fault = protected(pair, bases), None
    chip.set_timing(timing(bases) if timing else MemoryTiming())
    try:
        driver.run(0, whole if size is None else size)
    except DeviceFaultError as stopped:
        fault = stopped
        assert driver.read("STATUS") == 4
        assert driver.read("IRQ_STATUS") & 2
        assert chip.wait_interrupt(5) == 0, "the interrupt stays"
    chip.set_timing(MemoryTiming())
    driver.reset()
    assert [driver.read(name) for name in ("FAULT", "FAULT_INDEX", "FAULT_ADDRESS")] == [0] * 3
    assert (protected(pair, bases) == before).all()
    works(pair)
    return fault


def works(pair):
    """Assert that a copy of some bytes is right and takes as long as before."""
    copy = [transfer(Opcode.LOAD, Region.INPUT, 40, dram_offset=3)]
    copy += [transfer(Opcode.STORE, Region.OUTPUT, 40, wait_load=1, dram_offset=5), END]
    place(pair.rtl, copy)
    cycles = pair.rtl.run(0, len(b"".join(map(pack, copy)))).cycles
    source = pair.rtl.read_region(Region.INPUT, 3, 40)
    assert pair.rtl.read_region(Region.OUTPUT, 5, 40) == source
    assert cycles == getattr(pair.chip, "copy_cycles", cycles)
    pair.chip.copy_cycles = cycles


def record(fault):
    return fault and (fault.cause, fault.unit, fault.opcode, fault.index, fault.address)


TRANSFERS = {
    **{
        f"LOAD-{region.name}-{shape}": (Opcode.LOAD, region, shape)
        for region in (Region.INPUT, Region.ARENA)
        for shape in (SHAPES if region is Region.INPUT else ["row"])
    },
    **{
        f"STORE-{region.name}-{shape}": (Opcode.STORE, region, shape)
        for region in WRITABLE_REGIONS
        for shape in (("row", "aligned", "box") if region is Region.OUTPUT else ["row"])
    },
    "FETCH": None,
}

#: Every beat, in the slow part; else first, middle and last.
EVERY = [False, pytest.param(True, marks=pytest.mark.slow)]


@pytest.mark.parametrize("every", EVERY, ids=["ends", "every"])
@pytest.mark.parametrize("name", TRANSFERS)
def test_a_bus_error_at_each_beat(pair, name, every):
    kind = TRANSFERS[name]
    moves = load_or_store(pair.config, *kind) if kind else fetch(pair.config)
    count = len(moves.beats)
    places = range(count) if every else sorted({0, count // 2, count - 1})
    for number in places:
        for code in (SLAVE_ERROR, DECODE_ERROR):
            _burst, beat = moves.beats[number]

            def timing(bases, beat=beat, code=code, number=number):
                first = bases[moves.region] + beat
                stalls = {"stall_per_1024": 300, "latency_jitter": 20} if number % 2 else {}
                return MemoryTiming(
                    error_first=first, error_end=first + 1, error_code=code, seed=number, **stalls
                )

            fault = ends(pair, moves.commands, timing)
            check_bus_error(pair, moves, fault, number)


def check_bus_error(pair, moves, fault, number):
    burst, beat = moves.beats[number]
    address = pair.rtl.read(f"{moves.region.name}_BASE") + burst
    if moves.unit == "dispatch":
        assert (fault.cause, fault.unit, fault.opcode) == (Fault.AXI_READ, "dispatch", 0)
        assert fault.address == address
        # No instruction of the bad burst came through, and those before it may have.
        assert fault.index <= burst // 32
        return
    opcode = Opcode[moves.unit]
    if opcode is Opcode.STORE:
        # A burst's answer is that for its last beat.
        last = max(other for first, other in moves.beats if first == burst)
        if beat != last:
            assert fault is None
            return
    cause = Fault.AXI_READ if opcode is Opcode.LOAD else Fault.AXI_WRITE
    index = 2 if opcode is Opcode.LOAD else 1
    assert record(fault) == (cause, opcode.name, opcode, index, address)


def twice(opcode, *names, **fields):
    """Return an instruction whose loops all have two iterations, so that every stride matters."""
    return Instruction(opcode, {**dict.fromkeys(names, 2), **fields})


_KERNEL = ("kernel_rows", "kernel_cols", "blocks", "oc_blocks")

#: A legal instruction of each kind at `nano`.
LEGAL = {
    Opcode.END: END,
    Opcode.LOAD: transfer(Opcode.LOAD, Region.INPUT, 4, rows=2, planes=2),
    Opcode.STORE: transfer(Opcode.STORE, Region.OUTPUT, 4, rows=2, planes=2),
    Opcode.EXEC: twice(
        Opcode.EXEC, "input_rows", "width", "height", *_KERNEL, input_row_bytes=8, first_row=0
    ),
    Opcode.POST: twice(Opcode.POST, "width", "height", "oc_blocks", tail=4),
}

#: Fields of each that may have any value where no other one changes: numbers that are added or
#: compared, switches, places in the image, outside which there is padding, and what only a window
#: asks for.
FREE = {
    Opcode.END: set(),
    Opcode.LOAD: {"fill", "fill_value", "region"},
    Opcode.STORE: {"fill_value"},
    Opcode.EXEC: {
        *("accumulate", "maximum", "weights_fixed", "weights_wait_post", "pad_value"),
        *("first_row", "y_step", "kernel_row_step"),
        *("window", "line", "first_output", "out_x_skip", "out_y_skip"),
    },
    Opcode.POST: {
        *("source", "channel_bias", "channel_scale", "pre_shift", "bias"),
        *("output_zero", "clamp_low", "clamp_high"),
    },
}


def expected_record(config, commands, size=None):
    """Return the functional model's fault record for commands, ignoring their effects."""
    engine = Engine(config, {region: np.zeros(REGION_BYTES, np.uint8) for region in Region})
    engine._execute = lambda _instruction: None
    raw = b"".join(item if isinstance(item, bytes) else pack(item) for item in commands)
    try:
        engine.run(raw if size is None else raw[:size])
    except EngineFaultError as fault:
        return fault.cause, "dispatch", fault.opcode, fault.index, fault.address
    return None


def same_as_model(pair, commands, size=None):
    """Run commands that the model refuses; assert the same record; return its cause, or None."""
    expected = expected_record(pair.config, commands, size)
    if expected is None:
        return None
    assert record(ends(pair, commands, size=size)) == expected
    return expected[0]


def with_bits(instruction, position, bits, value):
    """Return an instruction's bytes with the bits at a position replaced."""
    word = int.from_bytes(pack(instruction), "little")
    word = word & ~(((1 << bits) - 1) << position) | value << position
    return word.to_bytes(len(pack(instruction)), "little")


def extremes(bits):
    """Return the first and last values of a number of bits, signed and unsigned, and neighbours."""
    ones = (1 << bits) - 1
    near = {0, 1, 2, 3, 5, 9, ones >> 1, (ones >> 1) + 1, ones - 1, ones}
    return sorted(value for value in near if value <= ones)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("opcode", Opcode, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("every", EVERY, ids=["ones", "every"])
def test_each_field_out_of_range(pair, opcode, every):
    """Also for reserved bits; the model says which values are legal, and the cause otherwise."""
    position, refused = 4, set()
    fields = FORMATS[opcode].all_fields[1:]
    for item in fields:
        for value in extremes(item.bits) if every else [(1 << item.bits) - 1]:
            raw = with_bits(LEGAL[opcode], position, item.bits, value)
            if same_as_model(pair, [LOADS, raw, END]):
                refused.add(item.name)
        position += item.bits
    # EXEC has none left.
    bits = range(position, 8 * len(pack(LEGAL[opcode])))
    for reserved in bits if every else {*bits[:1], *bits[-1:]}:
        raw = with_bits(LEGAL[opcode], reserved, 1, 1)
        assert same_as_model(pair, [LOADS, raw, END]) is Fault.ILLEGAL_FIELD
    assert refused
    assert refused.isdisjoint(FREE[opcode])
    if every:
        assert refused | FREE[opcode] == {item.name for item in fields}


def test_every_opcode_that_is_none(pair):
    for number in set(range(16)) - set(Opcode):
        raw = bytes([number]) + bytes(47)
        assert same_as_model(pair, [LOADS, raw, END]) is Fault.ILLEGAL_OPCODE


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
@pytest.mark.parametrize("region", Region)
def test_addresses_beyond_each_region(pair, opcode, region):
    """Exceed the region through each field of an address; its last byte is still legal."""
    if opcode is Opcode.STORE and region not in WRITABLE_REGIONS:
        assert same_as_model(pair, [transfer(opcode, region, 1), END]) is Fault.READ_ONLY_REGION
        return
    edge = REGION_BYTES
    for legal, name in (
        ({"dram_offset": edge - 4}, "dram_offset"),
        ({"row_bytes": edge}, "row_bytes"),
        ({"rows": 3, "dram_row_step": edge // 2 - 2}, "dram_row_step"),
        ({"rows": edge // 4, "dram_row_step": 4}, "rows"),
        ({"planes": 2, "dram_plane_step": edge - 4}, "dram_plane_step"),
        ({"planes": edge // 4, "dram_plane_step": 4}, "planes"),
    ):
        values = {"row_bytes": 4, **legal}
        inside = [transfer(opcode, region, **values), END]
        assert expected_record(pair.config, inside) is None
        assert ends(pair, inside) is None, name
        values[name] += 1
        beyond = [LOADS, transfer(opcode, region, **values), END]
        assert same_as_model(pair, beyond) is Fault.DRAM_RANGE, name
    for offset in (2**32 - 1, 2**32 - 4, 2**31):
        beyond = [LOADS, transfer(opcode, region, 4, dram_offset=offset), END]
        assert same_as_model(pair, beyond) is Fault.DRAM_RANGE


def test_command_buffers_cut_anywhere(pair):
    """Cut after each word and within words, also before the first instruction is complete."""
    commands = [LOADS, *(item for item in LEGAL.values() if item is not END), END]
    size = len(b"".join(map(pack, commands)))
    for cut in range(0, size, 16):
        assert same_as_model(pair, commands, cut) is Fault.COMMAND_RANGE, cut
    for cut in (1, 8, 17, 40, size - 1):
        assert record(ends(pair, commands, size=cut)) == (Fault.COMMAND_RANGE, "dispatch", 0, 0, 0)


SILENT = ["FETCH", "LOAD-INPUT-row", "STORE-OUTPUT-row", "LOAD-INPUT-box", "STORE-OUTPUT-box"]


def run_until_silence(pair, size, after):
    """Run commands on a memory that stops answering; return the fault or None."""
    chip = pair.chip
    calm = chip.wait_interrupt

    def falls_silent(cycles):
        ran = calm(after)
        chip.set_timing(MemoryTiming(frozen=True))
        return ran + calm(cycles)

    chip.wait_interrupt = falls_silent
    try:
        pair.rtl.run(0, size)
    except DeviceFaultError as fault:
        return fault
    finally:
        del chip.wait_interrupt
    return None


@pytest.mark.parametrize("step", [61, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SILENT)
def test_silence_from_any_cycle_on(pair, name, step):
    """The run ends in a timeout if an answer is due; a reset then waits for the memory."""
    driver, kind = pair.rtl, TRANSFERS[name]
    moves = load_or_store(pair.config, *kind) if kind else fetch(pair.config)
    units, fault, after = set(), True, 1
    driver.write("TIMEOUT", 400)
    while fault:
        bases, size = place(driver, moves.commands)
        before = protected(pair, bases)
        fault = run_until_silence(pair, size, after)
        if fault:
            assert (fault.cause, fault.address) == (Fault.TIMEOUT, 0)
            assert fault.index < len(moves.commands)
            units.add(fault.unit)
            # What is on its way must end first; before the first address has gone, nothing is.
            driver.write("CONTROL", 2)
            assert driver.read("STATUS") & 8 or fault.unit == "dispatch"
        pair.stop_stalls()
        driver.reset()
        assert (protected(pair, bases) == before).all()
        works(pair)
        after += step
    assert moves.unit in units
