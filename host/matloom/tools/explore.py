"""Explores engines for a board and some networks: predicted latency against predicted LUTs."""

import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import matloom
from matloom.tools.fit import EngineSearch, Part
from matloom.tools.fitted_engine import FittedEngine
from matloom.workers import run_as_completed

#: Choices for an engine: sides of the array, columns per lane, bits of the bus, KiB and banks of
#: the scratchpad, accumulator entries, and optional features.
_SIDES = (4, 8, 12, 16, 24, 32)
_PARTS = (1, 2, 4)
_BUSES = (32, 64, 128)
_SPADS = ((32, 4), (64, 4), (128, 4), (256, 4), (320, 5), (512, 4))
_ENTRIES = (128, 256, 512)
_EXTRAS = ("", "+products=1+tables=1")

#: Maximum ratio between the sides of an array.
_MAX_ASPECT = 2

#: Share of the points that are drawn at random before neighbours of the front are tried.
_RANDOM_SHARE = 0.4

#: Number of points compiled before the front is updated.
_BATCH_POINTS = 32

#: Number of entries by which a neighbour's choice differs in one list of choices.
_NEIGHBOUR_STEP = 1


def engine_space() -> list[tuple[int, ...]]:
    """Return all engines to explore, each as indices into the lists of choices of this module.

    No side of an array is more than `_MAX_ASPECT` times the other.
    """
    choices = (_SIDES, _SIDES, _PARTS, _BUSES, _SPADS, _ENTRIES, _EXTRAS)
    whole = itertools.product(*(range(len(each)) for each in choices))
    return [at for at in whole if _aspect_ratio(at) <= _MAX_ASPECT]


def _aspect_ratio(engine: tuple[int, ...]) -> float:
    """Return the longer side of an engine's array divided by the shorter one."""
    rows, columns = _SIDES[engine[0]], _SIDES[engine[1]]
    return max(rows, columns) / min(rows, columns)


def text_of(engine: tuple[int, ...]) -> str:
    """Return the configuration of an engine, given as indices, in the form of ``--config``."""
    rows, columns = _SIDES[engine[0]], _SIDES[engine[1]]
    kib, banks = _SPADS[engine[4]]
    return (
        f"small+rows={rows}+columns={columns}+lanes={max(1, columns // _PARTS[engine[2]])}"
        f"+bus_bits={_BUSES[engine[3]]}+spad_bytes={kib << 10}+spad_banks={banks}"
        f"+acc_bytes={_ENTRIES[engine[5]] * 4 * columns}{_EXTRAS[engine[6]]}"
    )


@dataclass(frozen=True, kw_only=True)
class ExploredPoint:
    """An engine and its predictions.

    Members
    -------
    uses:
        Predicted LUTs (``tables``), flip-flops, multipliers and block RAMs of the whole board.
    mhz:
        The board's clock, or the expected clock if that is lower.
    cycles:
        Predicted cycles by network; empty if a network cannot run.
    why:
        Reason why a network cannot run, or empty.
    measured:
        Results of synthesis and routing, by name; `error` is the relative error of predicted LUTs.
    """

    text: str
    uses: dict[str, int]
    mhz: float
    cycles: dict[str, int]
    why: str = ""
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def milliseconds(self) -> float:
        """Time of one call of each network together; infinite if a network cannot run."""
        return sum(self.cycles.values()) / self.mhz / 1000 if self.cycles else math.inf

    @property
    def tables(self) -> int:
        """Predicted number of LUTs of the whole board."""
        return self.uses["tables"]


def front_of(points: Sequence[ExploredPoint]) -> list[ExploredPoint]:
    """Return the Pareto front of latency and LUTs, the fastest point first.

    Of points that are equal in both, one is returned; points that cannot run a network are not.
    """
    found: list[ExploredPoint] = []
    order = sorted(points, key=lambda each: (each.milliseconds, each.tables, each.text))
    for point in order:
        if math.isfinite(point.milliseconds) and (not found or point.tables < found[-1].tables):
            found.append(point)
    return found


def cycles_of(
    text: str, networks: Mapping[str, str | bytes], memory: str | None
) -> tuple[dict[str, int], str]:
    """Return the predicted cycles of networks on an engine, and why one of them cannot run.

    `networks` maps names to sources for `matloom.compile`. If a network cannot run, there are no
    cycles; otherwise, the reason is empty.
    """
    from matloom.compiler import CompileOptions
    from matloom.runtime import compile

    found = {}
    # Ignore choices from `matloom tune`, which may exist on some machines only.
    options = CompileOptions(effort=0, tuned=False)
    for network, source in networks.items():
        try:
            program = compile(source, text, options, None, "none", memory)
        except ValueError as error:
            return {}, str(error)
        found[network] = program.predicted_cycles
    return found, ""


@dataclass(kw_only=True)
class Exploration:
    """Search for the Pareto front of engines; an interrupted search continues where it stopped.

    Members
    -------
    part:
        The device, and what must fit next to the engine.
    networks:
        Paths or names of networks.
    memory:
        Name of the board's memory; None for the default.
    journal:
        File with a line for each compiled engine, which is not compiled again.
    """

    part: Part
    networks: tuple[str, ...]
    memory: str | None
    journal: Path
    seed: int = 0

    def __post_init__(self) -> None:
        self.engine_search = EngineSearch(part=self.part)
        self._known = dict(self._read_journal())
        self._all = engine_space()
        random.Random(self.seed).shuffle(self._all)
        self._fitted: dict[tuple[int, ...], FittedEngine | None] = {}

    @property
    def digest(self) -> str:
        """Digest of version, memory and networks, on which predicted cycles of engines depend."""
        parts = [matloom.__version__, str(self.memory)]
        for network in self.networks:
            path = Path(network)
            content = path.read_bytes() if path.is_file() else network.encode()
            parts.append(hashlib.sha256(content).hexdigest())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _sources(self) -> dict[str, str | bytes]:
        """Return the content of each network's file, for workers without it, or its name."""
        paths = {network: Path(network) for network in self.networks}
        return {
            network: path.read_bytes() if path.is_file() else network
            for network, path in paths.items()
        }

    def run(
        self,
        count: int,
        make: Callable[[], Executor],
        note: Callable[[int], None] = lambda done: None,
    ) -> list[ExploredPoint]:
        """Return `count` points that fit the device, or all if there are fewer.

        The first points are drawn at random; after that, neighbours of the Pareto front come first.
        The points do not depend on the number of workers. `make` creates the executor that runs
        compilations; `note` is called with the number of finished points.
        """
        points: dict[tuple[int, ...], ExploredPoint] = {}
        drawn = iter(self._all)
        while len(points) < count:
            size = min(_BATCH_POINTS, count - len(points))
            batch: list[tuple[int, ...]] = []
            if len(points) >= _RANDOM_SHARE * count:
                near = self._neighbours(points)
                batch = list(itertools.islice(near, size))
            more = (at for at in drawn if at not in points and at not in batch and self.fits(at))
            batch += itertools.islice(more, size - len(batch))
            if not batch:
                break
            points |= self._compile_batch(batch, make)
            note(len(points))
        return list(points.values())

    def _neighbours(
        self, points: Mapping[tuple[int, ...], ExploredPoint]
    ) -> Iterator[tuple[int, ...]]:
        """Yield engines one choice away from the Pareto front of `points`: new ones that fit."""
        best = {id(point) for point in front_of(list(points.values()))}
        seen = set(points)
        every = set(self._all)
        for at, point in list(points.items()):
            if id(point) not in best:
                continue
            steps = (-_NEIGHBOUR_STEP, _NEIGHBOUR_STEP)
            for axis, step in itertools.product(range(len(at)), steps):
                other = (*at[:axis], at[axis] + step, *at[axis + 1 :])
                if other in every and other not in seen and self.fits(other):
                    seen.add(other)
                    yield other

    def fits(self, engine: tuple[int, ...]) -> bool:
        """Return whether resources suffice for an engine, given as indices; clocks may miss."""
        if engine not in self._fitted:
            self._fitted[engine] = self.engine_search.candidate(text_of(engine))
        fitted = self._fitted[engine]
        return fitted is not None and all(use.beyond <= 0 for use in fitted.uses.values())

    def _compile_batch(
        self, batch: list[tuple[int, ...]], make: Callable[[], Executor]
    ) -> dict[tuple[int, ...], ExploredPoint]:
        """Return points of these engines; compile the networks unless the journal has them."""
        texts = [text_of(at) for at in batch]
        missing = [text for text in texts if text not in self._known]
        task = partial(cycles_of, networks=self._sources(), memory=self.memory)
        with self.journal.open("a", encoding="utf-8") as journal:
            for number, (cycles, why) in run_as_completed(task, missing, make):
                text = missing[number]
                self._known[text] = cycles, why
                line = {"digest": self.digest, "text": text, "cycles": cycles, "why": why}
                journal.write(json.dumps(line) + "\n")
                journal.flush()
        return {at: self._point(at, text) for at, text in zip(batch, texts, strict=True)}

    def _point(self, at: tuple[int, ...], text: str) -> ExploredPoint:
        """Return the point of a compiled engine, given as indices (`at`) and as configuration."""
        engine = self._fitted[at]
        assert engine is not None
        cycles, why = self._known[text]
        return ExploredPoint(
            text=text,
            uses={name: round(use.used) for name, use in engine.uses.items()},
            mhz=round(min(self.part.clock_mhz, engine.mhz or self.part.clock_mhz), 2),
            cycles=cycles,
            why=why,
        )

    def _read_journal(self) -> Iterator[tuple[str, tuple[dict[str, int], str]]]:
        """Yield (configuration, (cycles, reason)) of the journal's valid lines with this digest."""
        if not self.journal.exists():
            return
        digest = self.digest
        for line in self.journal.read_text(encoding="utf-8").splitlines():
            try:
                found = json.loads(line)
                point = found["text"], (found["cycles"], found["why"])
                if found["digest"] == digest:
                    yield point
            except (ValueError, KeyError, TypeError):
                continue

    def as_dict(self, points: Sequence[ExploredPoint]) -> dict[str, Any]:
        """Return the points and their Pareto front as a dictionary of JSON types."""
        return {
            "board": self.part.board,
            "device": self.part.device,
            "networks": list(self.networks),
            "seed": self.seed,
            "front": [_point_as_dict(each) for each in front_of(points)],
            "points": [_point_as_dict(each) for each in points],
        }


def _point_as_dict(point: ExploredPoint) -> dict[str, Any]:
    """Return a point as a dictionary of JSON types."""
    time = point.milliseconds
    return {**asdict(point), "milliseconds": round(time, 4) if math.isfinite(time) else None}
