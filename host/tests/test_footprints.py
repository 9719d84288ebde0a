"""Addresses that the functional model reads and writes, compared with the tables.

The dispatcher, the verifier and the scheduler all rely on the extents of `arch/isa.py` and the
lines of `arch/footprint.py`. These tests compare both with memories that record every access.
"""

import random
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from matloom.arch import footprint, isa
from matloom.arch.config import PRESETS, load_config
from matloom.arch.instruction import Instruction, extent_end, pack
from matloom.arch.isa import WRITABLE_REGIONS, AddressSpace, Opcode, Region
from matloom.device.model import execute
from matloom.device.model.engine import Engine
from matloom.program import hazards
from matloom.program.accesses import accesses
from matloom.program.errors import VerifyError
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.verification.instructions import AddressRanges, random_instruction

CONFIGS = [
    PRESETS["nano"],
    load_config(
        "nano+rows=12+weight_rows=4+i8xi4+i4xi4+i16xi8+tables=1+products=1+acc_bytes=16384"
    ),
    load_config("nano+rows=8+weight_rows=2+float_rows=2+bf16+fp16+fp8_e4m3+fp8_e5m2"),
    load_config("nano+rows=12+weight_rows=4"),
]
REGION_BYTES = 6000
#: Instructions of each unit, in each configuration.
COUNTS = {Opcode.LOAD: 60, Opcode.EXEC: 300, Opcode.POST: 120, Opcode.STORE: 60}


class Noted(np.lib.mixins.NDArrayOperatorsMixin):
    """Part of a memory that records the addresses of reads and writes."""

    def __init__(self, contents, addresses, log):
        self.contents, self.addresses, self.log = contents, addresses, log
        self.shape, self.size, self.ndim = contents.shape, contents.size, contents.ndim

    def __len__(self):
        return len(self.contents)

    def _note(self, kind, addresses):
        self.log[kind].append(np.unique(addresses))

    def __array__(self, dtype=None, copy=None):
        self._note("read", self.addresses)
        return self.contents.astype(dtype or self.contents.dtype)

    def __getitem__(self, key):
        picked = Noted(self.contents[key], self.addresses[key], self.log)
        return np.array(picked) if isinstance(key, np.ndarray) else picked

    def __setitem__(self, key, values):
        self._note("write", self.addresses[key])
        self.contents[key] = np.array(values)

    def take(self, offsets):
        """Return contents; a negative offset reads nothing."""
        there = offsets[offsets >= 0]
        self._note("read", self.addresses[there])
        return np.where(offsets >= 0, self.contents[np.maximum(offsets, 0)], 0)

    def view(self, dtype):
        return Noted(self.contents.view(dtype), self.addresses, self.log)

    def reshape(self, *shape):
        return Noted(self.contents.reshape(*shape), self.addresses.reshape(*shape), self.log)

    def astype(self, dtype):
        return np.array(self).astype(dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = (np.array(each) if isinstance(each, Noted) else each for each in inputs)
        return getattr(ufunc, method)(*plain, **options)


def noted(contents, log):
    shape = (len(contents), *(1 for _axis in contents.shape[1:]))
    numbers = np.arange(len(contents)).reshape(shape)
    return Noted(contents, np.broadcast_to(numbers, contents.shape).copy(), log)


def mark_padding(monkeypatch):
    """Make the walk of EXEC mark padding, where the model reads any byte and replaces it."""
    original = execute._input_offsets

    def loop_nest(*geometry):
        offsets, outside = original(*geometry)
        return (offsets if outside is None else np.where(outside, -1, offsets)), outside

    monkeypatch.setattr(execute, "_input_offsets", loop_nest)


def traced(instruction, config, generator):
    """Execute an instruction; return the touched addresses, by memory and direction."""
    engine = Engine(config)
    noise = np.random.default_rng(generator.getrandbits(32))
    logs = {memory: {"read": [], "write": []} for memory in AddressSpace}
    engine.spad = noted(noise.integers(0, 64, config.spad_bytes, np.uint8), logs[AddressSpace.SPAD])
    sums = noise.integers(-99, 99, (config.acc_entries, config.columns), np.int32)
    engine.accumulators = noted(sums, logs[AddressSpace.ACC])
    contents = noise.integers(0, 256, REGION_BYTES, np.uint8)
    engine.regions = {region: noted(contents.copy(), logs[AddressSpace.DRAM]) for region in Region}
    engine.run(pack(instruction) + pack(Instruction(Opcode.END)))
    return {
        (memory, kind == "write"): np.unique(np.concatenate([np.empty(0, int), *found]))
        for memory, log in logs.items()
        for kind, found in log.items()
    }


@pytest.fixture(scope="module")
def runs():
    """Return (configuration, instruction, addresses) of many random instructions."""
    generator = random.Random(0)
    with pytest.MonkeyPatch.context() as patch:
        mark_padding(patch)
        return [
            (config, instruction, traced(instruction, config, generator))
            for config in CONFIGS
            for opcode, count in COUNTS.items()
            for instruction in instructions(generator, config, opcode, count)
        ]


def instructions(generator, config, opcode, count):
    size = config.spad_bytes
    space = AddressRanges(
        config=config,
        regions=dict.fromkeys(Region, REGION_BYTES),
        fetched=(size // 2, size),
        results=(0, size // 2),
    )
    for _number in range(count):
        values = random_instruction(generator, space, opcode, 400)
        if opcode is Opcode.LOAD and values["region"] == Region.PROGRAM:
            values["region"] = Region.INPUT
        yield Instruction(opcode, values)


def stated(table, instruction, config):
    """Yield the first and end address of each extent that applies."""
    for extent in table[instruction.opcode].extents:
        end = extent_end(extent, instruction, config)
        if end is not None:
            yield extent, getattr(instruction, extent.base), end


def addresses_of(lines):
    """Return the addresses of a strided range."""
    starts = np.array([lines.start])
    for count, step in zip(lines.counts, lines.steps, strict=True):
        starts = (starts[:, np.newaxis] + np.arange(count) * step).ravel()
    return np.unique(starts[:, np.newaxis] + np.arange(lines.run))


def may_be_loose(extent, instruction):
    """Return whether an extent may exceed what is touched, for one of four reasons.

    The input of EXEC is a box, of which a walk may read a part. Windows may have fewer outputs than
    vectors. A pair extends from the nearer half to the farther one. An instruction whose input is
    all padding reads nothing.
    """
    if extent.base == "input_addr":
        return True
    window = instruction.opcode is Opcode.EXEC and instruction.window
    paired = instruction.opcode is Opcode.POST and instruction.pairs
    narrow = instruction.opcode is Opcode.EXEC and instruction.mode in isa.NARROW
    return extent.memory is AddressSpace.ACC and bool(window or paired or narrow)


def problems(runs, table=isa.FORMATS, footprint=footprint.footprint):
    """Yield a message for each access that no table has, or that a table has and nothing makes."""
    reached = defaultdict(set)
    for config, instruction, found in runs:
        inside = defaultdict(list)
        for extent, start, end in stated(table, instruction, config):
            lines = footprint(extent, instruction, config)
            there = np.arange(start, end)
            if lines is not None and end > start:
                there = addresses_of(lines)
                if not there.size or there[0] < start or there[-1] >= end:
                    yield f"{instruction}: lines {lines} leave {start} to {end}"
            inside[extent.memory, extent.write].append(there)
            yield from _tight(extent, instruction, found, start, end, reached)
        for (memory, write), addresses in found.items():
            parts = inside[memory, write]
            if memory is AddressSpace.ACC and not write:
                # What is written in part is read first.
                parts = parts + inside[memory, True]
            known = np.concatenate([np.empty(0, int), *parts])
            beyond = addresses[~np.isin(addresses, known)]
            if beyond.size:
                yield f"{instruction}: touches {memory.name} {beyond[:4]}, of which nothing is said"
    for key, ends in reached.items():
        if ends != {"first", "last"}:
            yield f"{key} must be reached at both ends now and then, not at {ends}"


def _tight(extent, instruction, found, start, end, reached):
    """Yield a message if the first or last address of an extent is not touched."""
    if end <= start:
        return
    touched = found[extent.memory, extent.write]
    first, last = start in touched, end - 1 in touched
    if may_be_loose(extent, instruction):
        key = (instruction.opcode.name, extent.base, extent.memory, extent.write)
        reached[key] |= {"first"} if first else set()
        reached[key] |= {"last"} if last else set()
    elif not (first and last):
        yield f"{instruction}: touches not all of {extent.base}, {start} to {end - 1}"


@pytest.mark.slow
def test_tables_cover_the_models_accesses(runs):
    assert list(problems(runs)) == []
    modes = {i.mode for _config, i, _found in runs if i.opcode is Opcode.EXEC}
    assert modes == {0, 1, 2, 3, 4, 5, 6, 7}


@pytest.mark.slow
def test_the_verifier_knows_all_accesses(runs):
    """Compare the accesses that it derives: extents and lines together."""
    for config, instruction, found in runs:
        for (memory, write), addresses in found.items():
            known = [
                np.arange(item.start, item.end)
                if item.addresses is None
                else addresses_of(item.addresses)
                for item in accesses(instruction, config)
                if item.space[0] is memory and (item.write == write or memory is AddressSpace.ACC)
            ]
            assert np.isin(addresses, np.concatenate([np.empty(0, int), *known])).all()


def conflict(one, other, regions):
    """Return whether two instructions touch an address that one of them writes."""
    for memory in AddressSpace:
        if memory is AddressSpace.DRAM and regions[0] != regions[1]:
            continue
        writes = one[memory, True], other[memory, True]
        reads = one[memory, False], other[memory, False]
        pairs = (writes, (writes[0], reads[1]), (reads[0], writes[1]))
        if any(np.intersect1d(*pair).size for pair in pairs):
            return True
    return False


def test_overlapping_accesses_are_ordered(runs):
    """Two instructions of different units that touch the same address must be ordered."""
    generator, conflicts, frees = random.Random(1), 0, 0
    for _number in range(1600):
        config = generator.choice(CONFIGS)
        mine = [run for run in runs if run[0] is config]
        (_, first, one), (_, second, other) = generator.sample(mine, 2)
        regions = [i.values.get("region") for i in (first, second)]
        if first.opcode is second.opcode or not conflict(one, other, regions):
            frees += 1
            continue
        conflicts += 1
        order = DependencyTracker(config, dict.fromkeys(WRITABLE_REGIONS, REGION_BYTES))
        for instruction in (first, second):
            order.append(instruction.opcode, **instruction.values)
        wait = f"wait_{first.opcode.name.lower()}"
        assert getattr(order.instructions[1], wait) == 1, (first, second)
        found = [
            [item for item in accesses(i, config) if item.start < item.end] for i in (first, second)
        ]
        order = hazards.Hazards(found[0] + found[1])
        order.check(0, first, found[0])
        with pytest.raises(VerifyError, match="must wait for instruction 0"):
            order.check(1, second, found[1])
    assert conflicts > 100
    assert frees > 100


def mutated(module, old, new):
    """Return a module with one place of its source changed."""
    source = Path(module.__file__).read_text()
    assert source.count(old) == 1, f"{old!r} must be once in {module.__file__}"
    other = ModuleType(f"mutated_{module.__name__.replace('.', '_')}")
    exec(compile(source.replace(old, new), module.__file__, "exec"), vars(other))
    return other


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('return ("rows-1", f"{side}_row_step")', 'return ("rows", f"{side}_row_step")'),
        ('("planes-1", f"{side}_plane_step")', '("planes-1", f"{side}_row_step")'),
        (
            'spad((("row_bytes-1", str(1 << each)), ("1",))',
            'spad((("row_bytes-1", str(each)), ("1",))',
        ),
        ("            write=load,\n", "            write=not load,\n"),
        (
            'terms=(("input_rows-1", "input_pitch"), ("input_row_bytes",))',
            'terms=(("input_row_bytes",),)',
        ),
        ('("input_rows-1", "input_pitch")', '("input_rows", "input_pitch")'),
        ('terms=((*_EXEC_STEPS, "@tile_bytes"),)', 'terms=((*_EXEC_STEPS[1:], "@tile_bytes"),)'),
        ('terms=(("@tile_bytes",),)', 'terms=(("@tile_bytes", "2"),)'),
        (
            'terms=(("oc_blocks", "out_height", "out_width"),)',
            'terms=(("out_height", "out_width"),)',
        ),
        (
            '(("oc_blocks", "height", "width"), ("@acc_pairs",))',
            '(("oc_blocks", "height", "width"),)',
        ),
        ('("width-1", "x_step")', '("width", "x_step")'),
        ('("oc_blocks-1", "@columns", *times)', '("oc_blocks-1", "@columns")'),
        ('("oc_blocks/2", "height", "width")', '("oc_blocks", "height", "width")'),
        (
            '("oc_blocks", "channel_scale", "@scale_block_bytes")',
            '("channel_scale", "@scale_block_bytes")',
        ),
        (
            '(("source", (Source.SPAD,)), ("product", (1,)))',
            '(("source", (Source.SPAD,)), ("product", (0,)))',
        ),
        ("(Destination.ACC_SET, Destination.ACC_ADD)", "(Destination.ACC_SET,)"),
        ("(Table.NONE, Table.LOOK_UP)", "(Table.NONE,)"),
    ],
)
def test_mutants_of_the_extents_are_caught(runs, old, new):
    assert next(problems(runs, table=mutated(isa, old, new).FORMATS), None)


@pytest.mark.fast_cases(11)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if step == 0 or width % step or span % step:", "if step == 0 or span % step:"),
        ("if step == 0 or width % step or span % step:", "if step == 0 or width % step:"),
        ('first = divmod(get("first_byte", 0), step)', 'first = get("first_byte", 0) // step, 0'),
        ('(get("kernel_cols", 0) - 1) * get("kernel_col_step", 0)', "0"),
        ('(get("width", 0) - 1) * get("x_step", 0) + columns', "columns"),
        ("position + span // step + 1", "position + span // step"),
        ("+ low * step + first", "+ first"),
        (
            "_clip_range(first, first + length, width)",
            "_clip_range(first, first + length - 1, width)",
        ),
        ('get("input_addr", 0) + low, get', 'get("input_addr", 0), get'),
        ("min(max(low, 0), size - 1)", "max(low, 0)"),
        ('(get("oc_blocks", 0) - 1) * get("oc_step", 0) + get("blocks", 0)', 'values["blocks"]'),
        ('get("blocks", 0) * config.rows', "config.rows"),
        ("run += config.paired_bytes - config.rows", "pass"),
        ('if width == step and (first == 0 or values["first_byte"] >= 0):', "if width == step:"),
        ("if first + run > step:", "if run > step:"),
        ('counts = (get("input_rows", 0), high - low)', "counts = (1, high - low)"),
        ('(get("input_pitch", 0), step)', "(width, step)"),
        ('* config.columns + get("tail", 0)', "* config.columns"),
        ("run * post_element_bytes(values), counts", "run, counts"),
        (
            'counts = (get("height", 0), get("width", 0))',
            'counts = (get("width", 0), get("height", 0))',
        ),
        ('if max(counts) == 1 or get("spread", 0):', "if max(counts) == 1:"),
        (
            'steps = (get("spad_plane_step", 0), get("spad_row_step", 0))',
            'steps = (get("spad_row_step", 0), get("spad_plane_step", 0))',
        ),
        ("if (first + count - 1) // apart != bank:", "if False:"),
        ("first + bank * apart, count, (2,)", "first, count, (2,)"),
        ("count, (2,), (apart,)", "count, (1,), (apart,)"),
        ('-(-get("oc_blocks", 0) // 2)', 'get("oc_blocks", 0) // 2'),
    ],
)
def test_mutants_of_the_lines_are_caught(runs, old, new):
    assert next(problems(runs, footprint=mutated(footprint, old, new).footprint), None)


@pytest.mark.parametrize(
    ("counts", "steps", "strides"),
    [
        ((3, 4), (12, 3), 0),
        ((3, 4), (13, 3), 1),
        ((1, 4), (99, 5), 1),
        ((2, 1), (3, 99), 0),
        ((2, 3), (20, 5), 2),
        ((4, 3), (2, 8), 2),
    ],
)
def test_runs_without_gaps_are_merged(counts, steps, strides):
    lines = footprint.StridedRange(7, 3, counts, steps)
    merged = lines.merge_runs()
    assert len(merged.counts) == strides
    assert merged.end == lines.end
    assert _lines(merged) == _lines(lines)


def _lines(of):
    """Return all lines of a range."""
    starts = np.zeros((), int)
    for count, step in zip(of.counts, of.steps, strict=True):
        starts = np.add.outer(starts, np.arange(count) * step)
    return set(np.add.outer(of.start + starts, np.arange(of.run)).reshape(-1).tolist())
