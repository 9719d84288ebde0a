"""Runs a sample of tiles on the functional model against the operators' definitions.

If a network is too large to run as a whole, single tiles from anywhere in its command buffers run.
The meaning check (`matloom.meaning`) tells what a tile reads: each byte of the scratchpad is a
constant or the probe of a tensor's byte. Each probe is replaced by a random byte derived from it,
so that tensors and scratchpad agree without a map between them. The tile's EXECs and its POST run
on these bytes, the operator's definition runs on the tensors, and the results must be equal.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode
from matloom.device.model.engine import Engine
from matloom.ir.graph import Array, Graph, Op
from matloom.ir.work import macs
from matloom.kernels.definition import Definition
from matloom.meaning.state import State
from matloom.meaning.terms import is_known
from matloom.program import EngineStep, Program
from matloom.program.instruction_table import InstructionTable
from matloom.selfcheck.errors import CheckError
from matloom.selfcheck.tile_commands import (
    PROBE_VALUES,
    Numbers,
    ProbeSample,
    TileRun,
    bytes_of_probes,
    checkable_posts,
    flatten_probes,
    last_bits,
    may_be_among,
    scratchpad_reads,
    sum_instructions,
    written_bytes,
)

#: Maximum number of layers of a command buffer whose tiles are run.
_MAX_LAYERS = 24

#: Number of probes below which they serve to filter the other side with `may_be_among`.
_FEW_PROBES = 1 << 16

#: Maximum multiply-accumulates that definitions may take, for all tiles together.
_MOST_MACS = 150_000_000


@dataclass(kw_only=True)
class Tiles:
    """Draws tiles from a program during the meaning check, and compares them with definitions.

    Members
    -------
    graph:
        The lowered network, which the check is about.
    numbers:
        Tensor number in the graph of each tensor of the program, by name.
    bytes_of:
        Probes (numbers that stand for bytes) of each tensor, by its number; empty at first.
    """

    program: Program
    graph: Graph
    numbers: Mapping[str, int]
    seed: int = 0
    bytes_of: Mapping[int, Numbers | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Seed the generator; no tiles are drawn yet."""
        self._draw = np.random.default_rng([self.seed, 2])
        self.begin(self.bytes_of)

    def begin(self, bytes_of: Mapping[int, Numbers | None]) -> None:
        """Begin a meaning check: drop all tiles, and store the probes of each tensor's bytes."""
        self.bytes_of = bytes_of
        self._tiles: list[TileRun] = []
        self._written, self._scratch = ProbeSample(), np.zeros(PROBE_VALUES, bool)
        self._whole: dict[int, bool] = {}
        self._outside = {
            self.numbers[binding.name]
            for step in self.program.steps
            if isinstance(step, EngineStep)
            for binding in step.inputs
        }

    def watch(
        self, state: State, instructions: InstructionTable
    ) -> Callable[[int, Instruction], None]:
        """Draw tiles of a command buffer; return a function to call after each instruction."""
        layers = self._layers(instructions)
        parts: dict[int, list[tuple[TileRun, bool]]] = {}
        for last in self._draw_posts(instructions, layers):
            made_by = sum_instructions(instructions, last, state.config.columns)
            if made_by is None:
                continue
            tile = TileRun(instructions=[instructions[at] for at in made_by], layers=layers[last])
            self._tiles.append(tile)
            for at in made_by:
                parts.setdefault(at, []).append((tile, at == last))

        def after(number: int, instruction: Instruction) -> None:
            """Record what drawn tiles have written, and what their next instruction will read."""
            for tile, complete in parts.get(number, ()):
                if complete:
                    tile.places = written_bytes(instruction, state.config)
                    tile.made = state.spad[tile.places]
            if instruction.opcode is Opcode.POST and state.written is not None:
                self._written.add(flatten_probes(state.written, instruction))
            for tile, _complete in parts.get(number + 1, ()):
                tile.reads.append(scratchpad_reads(state, instructions[number + 1]))
                tile.tables = state.table.copy(), state.exponentials.copy()

        after(-1, Instruction(Opcode.END, {}))
        return after

    def compare(self) -> tuple[int, int]:
        """Run the tiles that can be checked; return their number, and the MACs of their outputs.

        Raises
        ------
        CheckError
            A tile differs from its layer's definition.
        """
        count, done, left = 0, 0, _MOST_MACS
        for tile in self._tiles:
            if self._only_moves_bytes(tile):
                assert tile.made is not None
                self._compare(tile, tile.made, bytes_of_probes(tile.made, self.seed))
                count += 1
                continue
            number = self._tensor(tile)
            sources = None if number is None else self._source_tensors(number, tile)
            if number is None or sources is None or not self._reads_only(tile, sources):
                continue
            definition = Definition(self.graph, self.program.config.float_rows)
            definition.reset({each: self._array(each) for each in sources})
            nodes = [self.graph.nodes[at] for at in definition.needed_nodes([number])]
            work = sum(macs(self.graph, node) for node in nodes)
            if work > left or any(node.op is Op.REFERENCE for node in nodes):
                continue
            left -= work
            expected = np.ascontiguousarray(definition.value(number))
            probes = self.bytes_of[number]
            assert probes is not None
            assert tile.places is not None
            self._compare(tile, probes, np.frombuffer(expected.tobytes(), np.uint8))
            done += work * len(tile.places) // self.graph.tensors[number].size_bytes
            count += 1
        return count, done

    def _layers(self, instructions: InstructionTable) -> list[tuple[str, ...]]:
        """Return, for each instruction, the names of the layers that complete next."""
        names: dict[int, list[str]] = {}
        for layer in self.program.layers:
            names.setdefault(layer.timestamp, []).append(layer.name)
        found: list[tuple[str, ...]] = []
        ending: tuple[str, ...] = ()
        for timestamp in reversed(instructions.column("timestamp")):
            ending = tuple(names.get(timestamp, ())) if timestamp else ending
            found.append(ending)
        return found[::-1]

    def _draw_posts(
        self, instructions: InstructionTable, layers: list[tuple[str, ...]]
    ) -> Iterator[int]:
        """Yield the index of a random POST instruction of each of some random layers."""
        posts: dict[tuple[str, ...], list[int]] = {}
        for at in checkable_posts(instructions):
            if layers[at]:
                posts.setdefault(layers[at], []).append(at)
        groups = list(posts.values())
        for number in sorted(self._draw.permutation(len(groups))[:_MAX_LAYERS].tolist()):
            yield int(self._draw.choice(groups[number]))

    def _tensor(self, tile: TileRun) -> int | None:
        """Return the number of the tensor that a tile belongs to; None if there is none."""
        for name in tile.layers:
            number = self.numbers.get(name)
            if number is None or not self._can_be_drawn(number):
                continue
            if self._contains(number, tile.made):
                return number
        return None

    def _can_be_drawn(self, number: int) -> bool:
        """Return whether random bytes may replace a tensor's probes, which must be known."""
        probes = self.bytes_of.get(number)
        return probes is not None and self.graph.tensors[number].dtype in ("int8", "int16")

    def _contains(self, number: int, tile_probes: Numbers | None) -> bool:
        """Return whether a tensor contains all bytes of a tile, compared by their probes."""
        probes = self.bytes_of[number]
        assert probes is not None
        if tile_probes is None or not (len(tile_probes) and (probes == tile_probes[0]).any()):
            return False
        return bool(self._probes_among(tile_probes, [probes]).all())

    def _probes_among(self, numbers: Numbers, others: list[Numbers]) -> NDArray[np.bool_]:
        """Return a mask of the numbers that are among `others`, compared by `last_bits`."""
        found = np.zeros(len(numbers), bool)
        near: NDArray[np.int64] | slice = slice(None)
        if len(numbers) < _FEW_PROBES:
            others = [each[may_be_among(each, [numbers])] for each in others]
        elif sum(map(len, others)) < _FEW_PROBES:
            near = np.flatnonzero(may_be_among(numbers, others))
        bits = [last_bits(each) for each in others]
        for each in bits:
            self._scratch[each] = True
        found[near] = self._scratch[last_bits(numbers[near])]
        for each in bits:
            self._scratch[each] = False
        return found

    def _source_tensors(self, number: int, tile: TileRun) -> set[int] | None:
        """Return the tensors from which to compute tensor `number`: the closest complete ones.

        Returns None if the values of one of them cannot be drawn.
        """
        sources: set[int] = set()
        wanted = [number]
        while wanted:
            at = self.graph.producers.get(wanted.pop())
            if at is None:
                return None
            for each in self.graph.nodes[at].inputs:
                if each in sources or self.graph.tensors[each].data is not None:
                    continue
                if not self._can_be_drawn(each):
                    return None
                if self._is_whole(each) and not self._contains(each, tile.made):
                    sources.add(each)
                else:
                    wanted.append(each)
        return sources

    def _reads_only(self, tile: TileRun, tensors: set[int]) -> bool:
        """Return whether a tile reads no bytes except constants and those of these tensors."""
        known = [probes for number in tensors if (probes := self.bytes_of[number]) is not None]
        return bool(self._probes_among(tile.operands, known).all())

    def _is_whole(self, number: int) -> bool:
        """Return whether a tensor exists completely: as a step's input, or written on chip."""
        if number not in self._whole:
            probes = self.bytes_of[number]
            assert probes is not None
            written = self._written.has(probes)
            self._whole[number] = number in self._outside or written
        return self._whole[number]

    def _array(self, number: int) -> Array:
        """Return example values of a tensor, derived from the probes (numbers) of its bytes."""
        tensor, probes = self.graph.tensors[number], self.bytes_of[number]
        assert probes is not None
        return bytes_of_probes(probes, self.seed).view(tensor.dtype).reshape(tensor.shape)

    def _only_moves_bytes(self, tile: TileRun) -> bool:
        """Return whether a tile only writes bytes that it reads, and constants."""
        if tile.made is None:
            return False
        return bool(self._probes_among(tile.made[~is_known(tile.made)], [tile.operands]).all())

    def _compare(self, tile: TileRun, probes: Numbers, expected: NDArray[np.uint8]) -> None:
        """Run a tile; raise `CheckError` if a byte differs from the expected value of its probe.

        If two bytes share a probe, which is one case in millions, either value is accepted.

        Parameters
        ----------
        probes, expected:
            Probe and value of each byte of the tile's tensor.
        """
        assert tile.made is not None
        found = self._run(tile)
        near = np.flatnonzero(self._probes_among(probes, [tile.made]))
        right = (probes[near].astype(np.int64) << 8) | expected[near]
        wrong = ~np.isin((tile.made.astype(np.int64) << 8) | found, right)
        if wrong.any():
            raise CheckError(
                f"layer {tile.layers[0]!r}: {int(wrong.sum()):,} of {len(found):,} bytes of a tile "
                f"are wrong (a tile by itself, random inputs, seed {self.seed})",
                tile.layers[0],
            )

    def _run(self, tile: TileRun) -> NDArray[np.uint8]:
        """Return the bytes that a tile's instructions write on the functional model."""
        engine = Engine(self.program.config)
        engine.accumulators[...] = self._draw.integers(-9999, 9999, engine.accumulators.shape)
        for table, contents in zip(vars(engine.tables).values(), tile.tables, strict=True):
            table[...] = contents.astype(np.int64) & 255
        for instruction, ranges in zip(tile.instructions, tile.reads, strict=True):
            for start, contents in ranges:
                engine.spad[start : start + len(contents)] = bytes_of_probes(contents, self.seed)
            engine.run_one(instruction)
        return engine.spad[tile.places]
