"""Draws random streams that aim at missing points of functional coverage."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Opcode, Region
from matloom.coverage.coverage import Coverage
from matloom.coverage.model import STALLS, CoverageGoal
from matloom.coverage.points import Window, fields_reached
from matloom.coverage.variants import flight_kind, smallest_instruction, variants
from matloom.verification.instructions import AddressRanges, instruction_for_goal
from matloom.verification.random_programs import (
    REGION_BYTES,
    RandomProgram,
    StreamDraw,
    random_stream,
)

#: Maximum number of goals per stream.
_MAX_GOALS = 24

#: Approximate limits of cycles of an instruction for a goal: the one to try first, and a higher one
#: that is enough for the largest value of any count.
_FEW_STEPS, _MAX_CYCLES = 1500, 200_000

#: Approximate maximum of cycles of the second and of the first instruction of a pair.
_SHORT, _LONG = 64, 4000

#: Weights with which groups are drawn while they have missing points.
_SHARES = {"field": 6, "flight": 2, "wait": 1}

#: Number of instructions of a stream for waits, enough to reach back as far as their fields allow.
_FAR_LENGTH = 600


@dataclass(frozen=True, kw_only=True)
class SteeredStream:
    """A random stream aimed at missing coverage points, and how external memory is to stall.

    `stall` is one of `STALLS`.
    """

    stream: RandomProgram
    stall: str


def steered_streams(coverage: Coverage, seed: int) -> Iterator[SteeredStream]:
    """Yield streams that aim at the points missing in `coverage`, until none are missing.

    The caller runs each stream and adds it to `coverage` before it takes the next. Most streams aim
    at fields and addresses under one kind of stall, others at pairs of instructions, or, with long
    streams, at waits that reach far back. The kind is drawn at random, so that a point that is hard
    to reach does not hold up the others.
    """
    generator = random.Random(f"steered {seed} {coverage.config.digest}")
    while missing := coverage.missing():
        number = generator.getrandbits(32)
        groups = coverage.model.points
        lacking = set(missing)
        lacks = {
            name: [each for each in points if each in lacking] for name, points in groups.items()
        }
        stall = generator.choice(STALLS)
        wanted = [name for name, weight in _SHARES.items() for _ in range(weight) if lacks[name]]
        match generator.choice(wanted or [""]):
            case "field":
                stall = generator.choice(lacks["field"]).rsplit(" ", 1)[1]
                goals = [
                    each[: -len(stall) - 1] for each in lacks["field"] if each.endswith(f" {stall}")
                ]
                stream = _stream_for_points(number, coverage, goals)
            case "flight":
                stream = _stream_of_pairs(number, coverage, lacks["flight"])
            case "wait":
                stream = random_stream(number, coverage.config, _FAR_LENGTH, max_cycles=_SHORT)
            case _:
                stream = random_stream(number, coverage.config)
        yield SteeredStream(stream=stream, stall=stall)


def _stream_for_points(seed: int, coverage: Coverage, points: list[str]) -> RandomProgram:
    """Return an instruction stream that aims at some coverage points of group ``field``.

    `points` lack their last word, which is the stall behaviour of external memory.
    """
    config, generator = coverage.config, random.Random(seed)
    large = max(REGION_BYTES, config.spad_bytes + 8192)
    draw = _SteeredDraw(seed, config, generator.choice((REGION_BYTES, large)))
    chosen = generator.sample(points, min(len(points), 3 * _MAX_GOALS))
    return draw.stream_for({point: coverage.model.goals[point] for point in chosen})


def _stream_of_pairs(seed: int, coverage: Coverage, points: list[str]) -> RandomProgram:
    """Return an instruction stream that aims at some coverage points of group ``flight``.

    These are pairs of instructions that are in flight together.
    """
    config, generator = coverage.config, random.Random(seed)
    kinds: dict[str, list[CoverageGoal]] = {}
    for unit in UNITS:
        for variant in variants(unit, config):
            small = smallest_instruction(variant, config)
            goal = CoverageGoal(opcode=unit, fixed=dict(variant.fixed), small=small)
            kinds.setdefault(flight_kind(unit, variant.fixed), []).append(goal)
    pairs = []
    for point in generator.sample(points, min(len(points), _MAX_GOALS // 4)):
        word = " then " if " then " in point else " overtakes "
        first, second = point.split(word)
        if word == " overtakes ":
            first, second = second, first
        pairs.append((generator.choice(kinds[first]), generator.choice(kinds[second])))
    return _SteeredDraw(seed, config).stream_of_pairs(pairs)


class _SteeredDraw(StreamDraw):
    """Draws one random stream that contains instructions for given coverage goals."""

    def __init__(self, seed: int, config: Config, region_bytes: int = REGION_BYTES):
        super().__init__(seed, config, region_bytes)
        # POST may write everywhere, because nothing is fetched before it has ended.
        self._fetches = self.random.random() < 0.7
        if not self._fetches:
            size = config.spad_bytes
            self.space = AddressRanges(
                config=config, regions=self.space.regions, fetched=(0, 0), results=(0, size)
            )

    def stream_for(self, goals: Mapping[str, CoverageGoal]) -> RandomProgram:
        """Return a stream with instructions for as many goals as possible, up to `_MAX_GOALS`.

        `goals` has the requirements of each coverage point.
        """
        self._begin()
        granted, reached = 0, set[str]()
        for point, goal in goals.items():
            if granted == _MAX_GOALS:
                break
            if point not in reached and self._append_for_goal(goal, _MAX_CYCLES, reached, point):
                granted += 1
        return self._end(_SHORT)

    def stream_of_pairs(self, pairs: list[tuple[CoverageGoal, CoverageGoal]]) -> RandomProgram:
        """Return a stream of pairs of instructions, of which the first may take much longer."""
        self._begin()
        for first, second in pairs:
            self._append_for_goal(first, _LONG, set(), "")
            self._append_for_goal(second, _SHORT, set(), "")
        return self._end(_SHORT)

    def _append_for_goal(
        self, goal: CoverageGoal, max_cycles: int, reached: set[str], point: str
    ) -> bool:
        """Append an instruction for a goal; return False if none is found.

        The points that the instruction reaches are added to `reached`; `point` must be among them
        unless it is empty.
        """
        if not self._fetches and goal.opcode is Opcode.EXEC:
            return False
        if not self._fetches and goal.opcode is Opcode.POST:
            free = {"channel_bias": 0, "channel_scale": 0}
            if any(goal.fixed.get(name) for name in free):
                return False
            goal = CoverageGoal(**{**vars(goal), "fixed": {**goal.fixed, **free}})
        room, values = self._remaining_space(), None
        for budget in (min(max_cycles, _FEW_STEPS), max_cycles):
            values = values or instruction_for_goal(self.random, room, goal, budget)
        if values is None:
            return False
        windows: dict[Region, Window] = {each: (0, size) for each, size in room.regions.items()}
        found = set(fields_reached(Instruction(goal.opcode, values), self.config, windows))
        if point and point not in found:
            return False
        self._append_values(goal.opcode, values)
        reached |= found
        return True
