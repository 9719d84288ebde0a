"""Draws random legal instructions whose fields often have boundary values."""

import functools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, illegal_field
from matloom.arch.isa import BLOCK_STEPS, FORMATS, AddressSpace, Opcode, Region
from matloom.coverage.model import CROSSING, FIRST, LAST, CoverageGoal
from matloom.coverage.sizes import extent_sizes, largest_fitting
from matloom.program.verify import overlaps_itself
from matloom.verification.draws import draw_fields, estimated_cycles, settle
from matloom.verification.fields import (
    body_fields,
    boundary_value,
    count_names,
    sized_names,
)

#: Number of repairs of a draw before it is given up.
_MAX_REPAIRS = 40

#: Number of attempts to satisfy a goal with random other fields, and then with small ones.
_MAX_GOAL_ATTEMPTS = 3

_DRAM_PAGE = 4096

#: Fields that count weight tiles.
_TILE_COUNTS = ("oc_blocks", "kernel_rows", "kernel_cols", "blocks")

#: Base addresses of operands that are fetched before an instruction starts.
_FETCHED = ("weight_addr", "param_addr")


@dataclass(frozen=True, kw_only=True)
class AddressRanges:
    """Address ranges in which random instructions may read and write.

    Members
    -------
    regions:
        Size in bytes of each region of external memory.
    fetched, results:
        Half-open ranges of the scratchpad for weights and parameters, and for results of POST. They
        must not overlap, because fetching weights and parameters does not wait for POST.
    """

    config: Config
    regions: Mapping[Region, int]
    fetched: tuple[int, int]
    results: tuple[int, int]

    def bounds(self, memory: AddressSpace, base: str, values: Mapping[str, int]) -> tuple[int, int]:
        """Return the first and last address, half-open, allowed for the field `base`."""
        if memory is AddressSpace.DRAM:
            return 0, self.regions.get(Region(values["region"]), 0)
        if memory is AddressSpace.ACC:
            return 0, self.config.acc_entries
        if base in _FETCHED:
            return self.fetched
        return self.results if base == "dest_addr" else (0, self.config.spad_bytes)


def random_instruction(
    generator: random.Random, space: AddressRanges, opcode: Opcode, max_cycles: int
) -> dict[str, int]:
    """Return fields of a legal random instruction that takes at most about `max_cycles`.

    Most instructions have one to three fields near a boundary of their range, or the largest value
    that fits in the memories. Addresses are the first or last that fit, arbitrary, or such that a
    bank, or a page of external memory, ends inside or next to the extent.
    """
    while True:
        values = draw_fields(generator, space.config, opcode)
        pinned = _pin_fields(generator, space.config, opcode, values)
        if _shrink_to_fit(generator, space, opcode, values, pinned, max_cycles):
            for _attempt in range(4):
                if _choose_bases(generator, space, opcode, values):
                    return values


def instruction_for_goal(
    generator: random.Random, space: AddressRanges, goal: CoverageGoal, max_cycles: int
) -> dict[str, int] | None:
    """Return fields of a legal instruction that meets a coverage goal; None if none is found.

    Other fields are random in the first attempts, and small in later ones. Returns None if no
    attempt succeeds, as when the goal is impossible in this space.
    """
    config, opcode = space.config, goal.opcode
    fields = body_fields(opcode, config)
    for attempt in range(2 * _MAX_GOAL_ATTEMPTS):
        wanted = goal.fixed if attempt < _MAX_GOAL_ATTEMPTS else goal.small
        values = {**draw_fields(generator, config, opcode), **wanted}
        # In modes other than i8xi8, a plain field is 0 even if pinned.
        other = bool(wanted.get("mode"))
        pinned = {name for name in wanted if not (other and fields[name].plain)}
        if _shrink_to_fit(generator, space, opcode, values, pinned, max_cycles):
            for _again in range(4):
                placed = _choose_bases(generator, space, opcode, values, goal)
                if placed and goal.fixed.items() <= values.items():
                    return values
    return None


@functools.cache
def _base_fields(opcode: Opcode) -> tuple[str, ...]:
    """Return the names of the fields of an opcode that hold addresses."""
    return tuple(dict.fromkeys(extent.base for extent in FORMATS[opcode].extents))


def _pin_fields(
    generator: random.Random, config: Config, opcode: Opcode, values: dict[str, int]
) -> set[str]:
    """Set up to three random fields to boundary values, in place; return their names."""
    fields = body_fields(opcode, config)
    names = [name for name in fields if name not in _base_fields(opcode)]
    if opcode is Opcode.STORE:
        # Only writable regions.
        names.remove("region")
    chosen = generator.sample(names, generator.choice((0, 0, 1, 1, 2, 3)))
    for name in chosen:
        values[name] = boundary_value(generator, fields[name], config)
    pinned = set(chosen)
    if not pinned.isdisjoint(_TILE_COUNTS) and "weights_fixed" in values:
        # With a single weight tile, the number of steps is limited only by the fields.
        values["weights_fixed"] = generator.randint(0, 1)
    return pinned


def _shrink_to_fit(
    generator: random.Random,
    space: AddressRanges,
    opcode: Opcode,
    values: dict[str, int],
    pinned: set[str],
    max_cycles: int,
) -> bool:
    """Reduce fields in place until memory ranges and duration fit; return whether they do.

    Usually counts that are not in `pinned` are reduced first, sometimes the pinned fields.
    """
    config = space.config

    def fits(changed: Mapping[str, int]) -> bool:
        """Return whether memory ranges and duration fit with some fields `changed`."""
        candidate = {**values, **changed}
        if estimated_cycles(config, opcode, candidate) > max_cycles:
            return False
        return all(
            size <= end - first
            for key, size in extent_sizes(opcode, candidate, config).items()
            for first, end in [space.bounds(*key, candidate)]
        )

    counts = count_names(opcode, config)
    reduce_first = generator.random() < 0.4
    for _repair in range(_MAX_REPAIRS):
        settle(generator, config, opcode, values, pinned)
        if fits({}):
            return True
        free = [name for name in counts if name not in pinned and values[name] > 1]
        if free and not (reduce_first and pinned):
            values[generator.choice(free)] = 1
            continue
        reduce_first = False
        sized = sorted(pinned & sized_names(opcode, config))
        for name in generator.sample(sized, len(sized)):
            low = body_fields(opcode, config)[name].limits(config)[0]
            fits_with = functools.partial(_is_possible_with, fits, name)
            values[name] = largest_fitting(low, values[name], fits_with)
    return False


def _is_possible_with(fits: Callable[[Mapping[str, int]], bool], name: str, value: int) -> bool:
    """Return whether an instruction fits with a field at this value."""
    return fits({name: value})


def _choose_bases(
    generator: random.Random,
    space: AddressRanges,
    opcode: Opcode,
    values: dict[str, int],
    goal: CoverageGoal | None = None,
) -> bool:
    """Set the address of every memory range, in place; return whether the instruction is legal."""
    config = space.config
    fields = body_fields(opcode, config)
    for name in _base_fields(opcode):
        # Without an extent, any address is legal.
        unit = _base_alignment(name, values, config)
        values[name] = boundary_value(generator, fields[name], config) // unit * unit
    sizes = extent_sizes(opcode, values, config)
    for (memory, base), size in sizes.items():
        low, high = space.bounds(memory, base, values)
        if not size:
            low, high = space.bounds(memory, "", values)
        wanted = goal.place if goal and goal.base == base else None
        place = _draw_address(generator, (low, high), size, _bank_size(config, memory), wanted)
        values[base] = place // (unit := _base_alignment(base, values, config)) * unit
        if values[base] < low:
            return False
    both = {(AddressSpace.SPAD, "source_addr"), (AddressSpace.SPAD, "dest_addr")} <= sizes.keys()
    if both and generator.random() < 0.3:
        _put_in_place(space, values, goal)
    instruction = Instruction(opcode, values)
    return illegal_field(instruction, config) is None and not overlaps_itself(instruction, config)


def _put_in_place(space: AddressRanges, values: dict[str, int], goal: CoverageGoal | None) -> None:
    """Set the addresses of a POST from the scratchpad so that it overwrites its source.

    Its source moves to its destination; for a goal about the source, its destination moves
    to the source, unless that lies outside of the range for results. `values` is changed in place.
    """
    first, end = space.results
    source, pitch = values["source_addr"], values["source_pitch"]
    goal_is_source = goal is not None and "source_pitch" in goal.fixed
    span = (values["height"] - 1) * pitch + (values["width"] - 1) * values["x_step"]
    if not goal_is_source:
        values |= {"source_addr": values["dest_addr"], "source_pitch": values["dest_pitch"]}
    elif first <= source and source + span + 4 * values["oc_blocks"] * space.config.columns <= end:
        values |= {"dest_addr": source, "dest_pitch": pitch}


def _base_alignment(base: str, values: Mapping[str, int], config: Config) -> int:
    """Return the number of which the value of an address field must be a multiple."""
    paired = values.get("window") and values.get("paired")
    if base == "weight_addr" or (paired and base in BLOCK_STEPS):
        return config.weight_boundary
    return 1


def _bank_size(config: Config, memory: AddressSpace) -> int:
    """Return the size of a bank or page in bytes, or of half of ACC in entries."""
    return {
        AddressSpace.SPAD: config.bank_bytes,
        AddressSpace.ACC: config.acc_entries // 2,
        AddressSpace.DRAM: _DRAM_PAGE,
    }[memory]


def _draw_address(
    generator: random.Random, bounds: tuple[int, int], size: int, unit: int, placement: str | None
) -> int:
    """Return an address, a multiple of `unit`: first or last that fits, any, or near a bank's end.

    `bounds` is half-open, `unit` is the size of a bank, and `placement` demands `FIRST`, `LAST` or
    `CROSSING` if not None.
    """
    low, high = bounds
    last = high - size
    boundary = unit * generator.randint(low // unit, high // unit)
    crossing = boundary - generator.choice((0, size, generator.randint(0, size)))
    chosen = generator.choice((low, last, generator.randint(low, last), crossing, crossing))
    if placement is not None:
        chosen = {FIRST: low, LAST: last, CROSSING: crossing}[placement]
    return min(max(chosen, low), last)
