"""Compares the outputs of a program's instructions with the network's definition."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.arch.numerics import Rounding
from matloom.ir.graph import RESHAPES, Graph
from matloom.meaning.errors import MeaningError
from matloom.meaning.machine import instruction_name, new_state, run, unwritten
from matloom.meaning.network import Expected, readings
from matloom.meaning.places import Places
from matloom.meaning.result_sums import ResultSums
from matloom.meaning.state import State
from matloom.meaning.terms import Integers, is_known, split_words
from matloom.program import Binding, EngineStep, HostStep, Program, Repeat
from matloom.program.instruction_table import InstructionTable, unpack_all


class Observer(Protocol):
    """Interface for watching a proof, command buffer by command buffer (`selfcheck.tiles`)."""

    def begin(self, bytes_of: Mapping[int, Integers | None]) -> None:
        """Called when the proof (re)starts, with probes (of unknown bytes) by tensor number."""

    def watch(
        self, state: State, instructions: InstructionTable
    ) -> Callable[[int, Instruction], None]:
        """Called before a command buffer runs; returns the function to store in `State.watch`."""


def check_meaning(
    graph: Graph, program: Program, names: Mapping[int, str], observer: Observer | None = None
) -> tuple[int, int]:
    """Prove that a program's instructions compute its network, operator by operator.

    Return how many operators on the engine are proved, and how many there are. Every command buffer
    is run on probes, numbers for unknown bytes (`terms`), with memories that hold only its inputs
    and the program's image; a repeated call also finds the kept weights of the first, which it must
    not change. Each byte of each output must equal the result of the operators' definitions. Sums
    wrap at 32 bits. Not checked: that sums do not overflow by mistake, the order of floating-point
    additions, and hazards (`verify`).

    Parameters
    ----------
    graph, names:
        The lowered network, after all passes, and unique names of its tensors in the program.
    observer:
        Receives the probe of each byte while the commands run.

    Raises
    ------
    MeaningError
        Commands compute something else, or access addresses outside their memories. The message
        names the first output that differs, what it holds instead, and where the difference began.
    """
    made = {name for step in program.steps if isinstance(step, HostStep) for name in step.outputs}
    on_host = {number for number, name in names.items() if name in made}
    known: list[Expected] = []
    for expected in readings(graph, program.config, on_host, program.image):
        known.append(expected)
        with suppress(MeaningError):
            return _check_graph(graph, program, names, expected, observer)
    return _check_graph(graph, program, names, known[0], observer, explains=True)


def _check_graph(
    graph: Graph,
    program: Program,
    names: Mapping[int, str],
    expected: Expected,
    observer: Observer | None,
    *,
    explains: bool = False,
) -> tuple[int, int]:
    """Return how many engine operators are proved, of how many; `explains` makes errors longer."""
    if observer is not None:
        observer.begin(expected.bytes_of)
    check = _Check(
        graph=graph,
        program=program,
        names=names,
        expected=expected,
        sums=ResultSums(graph=graph),
        observer=observer,
        explains=explains,
    )
    reached: set[int] = set()
    for step in program.steps:
        if isinstance(step, EngineStep):
            reached |= check.step(step)
    return _proven_nodes(graph, expected, reached), len(expected.nodes)


def _proven_nodes(graph: Graph, expected: Expected, reached: set[int]) -> int:
    """Return how many engine nodes contribute to outputs `reached`; add tensors on the way."""
    of_engine = {id(node) for node in expected.nodes}
    proven = 0
    for node in reversed(graph.nodes):
        if id(node) in of_engine and reached.intersection(node.outputs):
            proven += 1
            reached.update(node.inputs)
        elif node.op in RESHAPES and reached.intersection(node.outputs):
            reached.update(node.inputs)
    return proven


@dataclass(frozen=True, kw_only=True)
class _Check:
    """Check of a program against the expected bytes of its tensors."""

    graph: Graph
    program: Program
    names: Mapping[int, str]
    expected: Expected
    #: Sums that POST computes with a table, as the network's ADDs define them.
    sums: ResultSums
    observer: Observer | None = None
    explains: bool = False
    #: Engines without inputs: at 0 for the first call, at 1 for a repeated call.
    blank: dict[int, State] = field(default_factory=dict)

    def step(self, step: EngineStep) -> set[int]:
        """Check the command buffers of an engine step; return numbers of compared outputs."""
        reached, spad = self._compare(step, step, lambda: self._state(step, 0))
        again = step.repeat
        if again is not None:
            self._compare(step, again, lambda: self._state_for_repeat(step, again, spad))
        return reached

    def _numbers(self, bindings: tuple[Binding, ...]) -> Iterator[tuple[Binding, int]]:
        """Yield each binding (tensor and its address) with the tensor's number."""
        numbers = {name: number for number, name in self.names.items()}
        for binding in bindings:
            yield binding, numbers[binding.name]

    def _state(self, step: EngineStep, call: int) -> State:
        """Return the engine before a call: memory has inputs and image, the rest is unwritten."""
        if call not in self.blank:
            self.blank[call] = self._blank(call)
        state = self.blank[call].copy()
        for binding, number in self._numbers(step.inputs):
            probes = self.expected.bytes_of[number]
            if probes is not None:
                memory = state.regions[binding.region]
                memory[binding.offset : binding.offset + len(probes)] = probes
        return state

    def _blank(self, call: int) -> State:
        """Return the engine's state before a call: the image is in memory, but no inputs yet."""
        image = np.frombuffer(self.program.image, np.int8).astype(np.float64)
        regions: dict[Region, NDArray[np.float64]] = {Region.PROGRAM: image}
        for region, size in self.program.region_bytes.items():
            if region is not Region.PROGRAM:
                regions[region] = unwritten(size, 4, int(region), call)
        return new_state(self.program.config, regions, self.sums, call)

    def _state_for_repeat(
        self, step: EngineStep, repeat: Repeat, spad: NDArray[np.float64]
    ) -> State:
        """Return the engine before a repeated call: `_state`, with the kept bytes of `spad`."""
        state = self._state(step, 1)
        for start, end in repeat.kept:
            state.spad[start:end] = spad[start:end]
        return state

    def _compare(
        self, step: EngineStep, buffer: EngineStep | Repeat, start: Callable[[], State]
    ) -> tuple[set[int], NDArray[np.float64]]:
        """Run a command buffer from the state returned by `start`, and compare its outputs.

        Return the tensor numbers of the outputs compared, and the final scratchpad.
        """
        state = start()
        state.observe = None if self.observer is None else self.observer.watch
        kept_bytes = self._kept_constants(step, state, repeated=isinstance(buffer, Repeat))
        variables = self._variables(step, state)
        try:
            run(state, self.program.commands(buffer))
            for name, place, before in variables:
                if not np.array_equal(before, state.regions[place.region][_span(place, before)]):
                    raise MeaningError(f"variable {name!r} must stay as it is")
            for first, before in kept_bytes:
                _check_kept_bytes(first, state.spad[first : first + len(before)], before)
            numbers = {
                number
                for binding, number in self._numbers(step.outputs)
                if self._compare_output(binding, number, state)
            }
        except MeaningError as error:
            call = "a repeated call" if isinstance(buffer, Repeat) else "the first call"
            if not self.explains:
                raise
            where, layer = self._first_unknown_bytes(start(), buffer)
            raise MeaningError(f"in {call}, {error}{where}", layer or error.tensor) from None
        return numbers, state.spad

    def _kept_constants(
        self, step: EngineStep, state: State, *, repeated: bool
    ) -> list[tuple[int, NDArray[np.float64]]]:
        """Return start and bytes of ranges that repeated calls rely on; NaN in a first call."""
        spans = step.repeat.kept if step.repeat is not None else ()
        return [
            (first, state.spad[first:end].copy() if repeated else np.full(end - first, np.nan))
            for first, end in spans
        ]

    def _variables(
        self, step: EngineStep, state: State
    ) -> list[tuple[str, Binding, NDArray[np.float64]]]:
        """Return name, place and bytes of each variable that an engine step must not change."""
        written = {binding.name for binding in step.outputs}
        found = []
        for variable in self.program.variables:
            place = variable.place
            if place is not None and variable.after not in written:
                size = self.graph.tensors[self._number(variable.before)].size_bytes
                memory = state.regions[place.region][place.offset : place.offset + size]
                found.append((variable.name, place, memory.copy()))
        return found

    def _number(self, name: str) -> int:
        """Return the number of the tensor with this name."""
        return next(number for number, known in self.names.items() if known == name)

    def _compare_output(self, binding: Binding, number: int, state: State) -> bool:
        """Compare an output with its expected bytes; return False if they are unknown."""
        wanted = self.expected.bytes_of[number]
        if wanted is None:
            return False
        found = state.regions[binding.region][binding.offset :][: len(wanted)]
        if len(found) == len(wanted) and np.array_equal(found, wanted):
            return True
        if len(found) < len(wanted):
            raise MeaningError(f"output {binding.name!r} must lie within its region")
        if not self.explains:
            raise MeaningError(f"output {binding.name!r} holds other bytes", binding.name)
        at = int(np.argmax(found != wanted))
        places = Places(self.graph, self.names, self.expected)
        raise MeaningError(
            f"byte {at} of output {binding.name!r} holds {places.describe(int(found[at]))} "
            f"({int((found != wanted).sum())} of {len(wanted)} bytes are wrong)",
            binding.name,
        )

    def _first_unknown_bytes(self, state: State, buffer: EngineStep | Repeat) -> tuple[str, str]:
        """Return text on the first integer POST that writes unknown bytes, and its layer, or ""."""
        places = Places(self.graph, self.names, self.expected)
        found: list[tuple[str, str]] = []

        def watch(number: int, instruction: Instruction) -> None:
            """Record the POST if it is the first that writes bytes which no tensor has."""
            floats = instruction.values.get("rounding") == Rounding.FLOAT
            if instruction.opcode is not Opcode.POST or floats or found or state.written is None:
                return
            written = state.written.reshape(-1)
            if instruction.words:
                written = split_words(written)[1]
            right = places.is_known(written)
            if not right.all():
                layer = self._layer(buffer, number)
                text = (
                    f"; {instruction_name(number, instruction)} of layer {layer!r} is the first to "
                    f"write what no tensor has: {(~right).sum()} of {len(right)} elements"
                )
                found.append((text, layer))

        state.watch = watch
        with suppress(MeaningError):
            run(state, self.program.commands(buffer))
        return found[0] if found else ("", "")

    def _layer(self, buffer: EngineStep | Repeat, number: int) -> str:
        """Return the name of the layer of instruction `number`: that of the next timestamp."""
        instructions = list(unpack_all(self.program.commands(buffer)))
        timestamp = next((item.timestamp for item in instructions[number:] if item.timestamp), 0)
        return next((item.name for item in self.program.layers if item.timestamp == timestamp), "")


def _span(place: Binding, memory: NDArray[np.float64]) -> slice:
    """Return the range of bytes that `memory` takes from the address `place` on."""
    return slice(place.offset, place.offset + len(memory))


def _check_kept_bytes(
    first: int, scratchpad: NDArray[np.float64], earlier: NDArray[np.float64]
) -> None:
    """Raise `MeaningError` unless kept bytes are constants, equal to `earlier` ones if known."""
    right = is_known(scratchpad) & (np.isnan(earlier) | (scratchpad == earlier))
    if not right.all():
        at = int(np.argmin(right))
        raise MeaningError(f"byte {first + at} of the scratchpad must still hold a constant")
