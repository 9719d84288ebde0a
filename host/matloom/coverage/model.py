"""Coverage points declared for a configuration, and reasons why others are excluded."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.isa import BLOCK_STEPS, HEAD, UNITS, WRITABLE_REGIONS, AddressSpace, Field, Opcode
from matloom.arch.numerics import Rounding
from matloom.coverage.sizes import extent_sizes, largest_fitting
from matloom.coverage.variants import (
    Variant,
    base_fields,
    body_fields,
    effect_conditions,
    flight_kind,
    smallest_instruction,
    variants,
    why_single_value,
    written_steps,
)

FIRST, LAST, CROSSING = "first", "last", "crossing"

#: Behaviours of external memory: ready whenever it can be; with randomly withheld handshakes; slow,
#: with several cycles per beat or per change of row.
STALLS = ("steady", "withheld", "slow")

#: Value of `Config.counters` that counts cycles by cause.
_COUNTS_CAUSES = 2

#: Reasons why some causes of waits cannot occur, by the name of the counter.
_IMPOSSIBLE_CAUSES = {"exec_wait_bank": "reads of EXEC go before all others in every bank"}

#: Name of a coverage point, such as ``LOAD wait_post first``.
Point = str

#: Bytes between boundaries of external memory that bursts must not cross.
PAGE = 4096


@dataclass(frozen=True, kw_only=True)
class CoverageGoal:
    """Requirements on an instruction that reaches a coverage point.

    Members
    -------
    fixed:
        Values of the fields that the point requires.
    small:
        Values of all fields except base addresses: as required, else as small as possible.
    base, place:
        For a point of an address, its base field, and where its extent must lie: at the first or
        the last address of the memory, or across a boundary (`FIRST`, `LAST`, `CROSSING`). None for
        other points.
    """

    opcode: Opcode
    fixed: dict[str, int]
    small: dict[str, int]
    base: str | None = None
    place: str | None = None


@dataclass(frozen=True, kw_only=True)
class CoverageModel:
    """Coverage points by group, and reasons why others are impossible in a configuration.

    Members
    -------
    points:
        Points of each group: ``field``, ``wait``, ``flight`` and ``cause``.
    goals:
        Requirements of the points of group ``field``. Keys lack the last word of the points, which
        is the stall behaviour of external memory.
    excluded:
        Reasons for exclusions, by point, or by the words that several excluded points begin with.
    """

    points: dict[str, tuple[Point, ...]]
    goals: dict[Point, CoverageGoal] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)

    @functools.cached_property
    def all_points(self) -> frozenset[Point]:
        """All declared points of all groups."""
        return frozenset(point for points in self.points.values() for point in points)


@functools.cache
def declare(config: Config) -> CoverageModel:
    """Return the coverage points of a configuration, derived from it and the instruction set."""
    goals: dict[Point, CoverageGoal] = {}
    excluded: dict[str, str] = {}
    for unit in UNITS:
        for variant in variants(unit, config):
            _declare_fields(variant, config, goals, excluded)
            _declare_bases(variant, config, goals, excluded)
    causes = [f"cause {name}" for name, _doc in EXEC_CAUSES if name not in _IMPOSSIBLE_CAUSES]
    excluded |= {f"cause {name}": reason for name, reason in _IMPOSSIBLE_CAUSES.items()}
    if config.counters < _COUNTS_CAUSES:
        excluded["cause"] = "no counters of causes are built"
        causes = []
    points = {
        "field": tuple(f"{point} {stall}" for point in goals for stall in STALLS),
        "wait": tuple(_wait_points()),
        "flight": tuple(_pair_points(config)),
        "cause": tuple(causes),
    }
    for unit in UNITS:
        excluded[f"{unit.name} overtakes {unit.name}"] = "a unit works in order"
    return CoverageModel(points=points, goals=goals, excluded=excluded)


def _wait_points() -> Iterator[Point]:
    """Yield the points of wait fields: each with its smallest and largest wait, by opcode."""
    for opcode in (*UNITS, Opcode.END):
        for item in HEAD:
            if item.name.startswith("wait_"):
                for place in (FIRST, LAST):
                    yield f"{opcode.name} {item.name} {place}"


def _pair_points(config: Config) -> Iterator[Point]:
    """Yield the points of pairs of instructions: at work together, or one overtaking the other."""
    kinds: dict[str, Opcode] = {}
    for unit in UNITS:
        for variant in variants(unit, config):
            kinds[flight_kind(unit, variant.fixed)] = unit
    for before, unit in kinds.items():
        for after, other in kinds.items():
            yield f"{before} then {after}"
            if unit is not other:
                yield f"{after} overtakes {before}"


def _declare_fields(
    variant: Variant, config: Config, goals: dict[Point, CoverageGoal], excluded: dict[str, str]
) -> None:
    """Add goals and exclusions for the fields, except addresses, of a mode of an opcode."""
    opcode = variant.opcode
    for name, item in body_fields(opcode, config).items():
        if name in base_fields(opcode) or name in variant.fixed:
            continue
        subject = f"{variant.name}: {name}"
        reason = why_single_value(variant, item, config) or _why_irrelevant(variant, name)
        if reason:
            excluded[subject] = reason
            continue
        for word, value in field_values(variant, item, config).items():
            fixed = {**variant.fixed, **_required_values(variant, name), name: value}
            small = {**_smallest_instruction_with(variant, name, config), name: value}
            goals[f"{subject} {word}"] = CoverageGoal(opcode=opcode, fixed=fixed, small=small)
        high = item.limits(config)[1]
        value = field_values(variant, item, config).get(LAST, high)
        unit = _granularity(variant, item, config)
        if value < high // unit * unit:
            excluded[f"{subject} {high}"] = f"no more than {value} fits in the memories"


def _why_irrelevant(variant: Variant, name: str) -> str | None:
    """Return why a mode's fixed values leave a field without effect; None if they do not."""
    for other, (low, high) in effect_conditions(variant.opcode, name).items():
        value = variant.fixed.get(other)
        if value is not None and not (low <= value and (high is None or value <= high)):
            return f"irrelevant where {other} is {value}"
    return None


def _required_values(variant: Variant, field: str) -> dict[str, int]:
    """Return the smallest values of other fields with which a field has an effect, by name."""
    return {other: low for other, (low, _high) in effect_conditions(variant.opcode, field).items()}


def _smallest_instruction_with(variant: Variant, name: str, config: Config) -> dict[str, int]:
    """Return the field values of the smallest instruction in which a field has an effect.

    Base addresses are not included.
    """
    return {**smallest_instruction(variant, config), **_required_values(variant, name)}


def field_values(variant: Variant, field: Field, config: Config) -> dict[str, int]:
    """Return the values of a field that coverage requires, by the word that stands for each.

    They are all allowed values of a field that has a list of them. Of other fields they are the
    smallest (`FIRST`) and the largest value (`LAST`) with which an instruction fits in the memories
    while all other fields are small.
    """
    choices = field.allowed_values(config)
    if field.name == "region" and variant.opcode is Opcode.STORE:
        choices = WRITABLE_REGIONS
    if field.name == "pre_shift" and variant.fixed["rounding"] == Rounding.FLOAT:
        choices = config.post_formats
    if choices is not None:
        return {str(int(choice)): int(choice) for choice in choices}
    unit = _granularity(variant, field, config)
    low, high = field.limits(config)
    low = max(low, written_steps(variant, config).get(field.name, low))
    low, high = -(-low // unit), high // unit
    small = _smallest_instruction_with(variant, field.name, config)

    def fits(value: int) -> bool:
        """Return whether the instruction with this field value, in its unit, fits all memories."""
        sizes = extent_sizes(variant.opcode, {**small, field.name: value * unit}, config)
        return all(size <= capacity(memory, config) for (memory, _base), size in sizes.items())

    return {FIRST: low * unit, LAST: largest_fitting(low, high, fits) * unit}


def _granularity(variant: Variant, field: Field, config: Config) -> int:
    """Return the number of which all legal values of a field are multiples."""
    paired = variant.fixed.get("window") and variant.fixed.get("paired")
    return config.weight_boundary if paired and field.name in BLOCK_STEPS else field.unit(config)


def capacity(memory: AddressSpace, config: Config) -> int:
    """Return the size of a memory in bytes (ACC: in entries); 4 GiB for external memory."""
    on_chip = {AddressSpace.SPAD: config.spad_bytes, AddressSpace.ACC: config.acc_entries}
    return on_chip.get(memory, 1 << 32)


def boundary_distance(memory: AddressSpace, config: Config) -> int:
    """Return the distance of boundaries that extents can cross, in bytes (ACC: in entries).

    They separate the banks of the scratchpad, the halves of ACC, and the pages of external memory.
    """
    banks = {AddressSpace.SPAD: config.bank_bytes, AddressSpace.ACC: config.acc_entries // 2}
    return banks.get(memory, PAGE)


def _declare_bases(
    variant: Variant, config: Config, goals: dict[Point, CoverageGoal], excluded: dict[str, str]
) -> None:
    """Add goals and exclusions for the base addresses of a mode of an opcode."""
    found: dict[str, tuple[AddressSpace, dict[str, int]]] = {}
    for flags in _flags_for_access(variant, config):
        values = {**smallest_instruction(variant, config), **flags}
        for (memory, base), size in extent_sizes(variant.opcode, values, config).items():
            if size:
                found.setdefault(base, (memory, flags))
    for base in base_fields(variant.opcode):
        subject = f"{variant.name}: {base}"
        if base not in found:
            excluded[subject] = "irrelevant in this mode"
            continue
        memory, flags = found[base]
        fixed = {**variant.fixed, **flags}
        small = {**smallest_instruction(variant, config), **flags}
        for place in (FIRST, LAST, CROSSING):
            if place == CROSSING and boundary_distance(memory, config) == capacity(memory, config):
                excluded[f"{subject} {CROSSING}"] = "the memory is one bank"
                continue
            goals[f"{subject} {place}"] = CoverageGoal(
                opcode=variant.opcode, fixed=fixed, small=small, base=base, place=place
            )


def _flags_for_access(variant: Variant, config: Config) -> list[dict[str, int]]:
    """Return sets of field values, each of which makes an instruction access an optional memory.

    The empty set is included, for memories that the mode always accesses. An EXEC with a window
    gets only the size of its output, without which it accesses nothing.
    """
    if variant.opcode is Opcode.EXEC:
        return [{"out_width": 1, "out_height": 1} if variant.fixed["window"] else {}]
    if variant.opcode is Opcode.POST:
        products = config.products and variant.fixed["rounding"] != Rounding.FLOAT
        reads = ["product"] if products else []
        reads += ["addend"] if products and config.has_addends else []
        return [{}, {"channel_bias": 1}, *({name: 1} for name in reads)]
    return [{}]
