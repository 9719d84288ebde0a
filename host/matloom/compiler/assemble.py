"""From scheduled runs to a Program: the image, the regions, the steps, the layers."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import INSTRUCTION_WORD_BYTES, Region
from matloom.arch.machine import Machine
from matloom.arch.program_file import ALIGNMENT, CONSTANT_ALIGNMENT
from matloom.frontend.arithmetic import file_macs
from matloom.ir.attributes import Reference
from matloom.ir.graph import Array, Graph, Tensor, Variable
from matloom.ir.work import macs, tensor_bytes
from matloom.program import (
    Binding,
    Constant,
    EngineStep,
    HostStep,
    LayerInfo,
    Program,
    Quantised,
    Repeat,
    TensorInfo,
    VariableInfo,
)
from matloom.program.instruction_table import InstructionTable
from matloom.schedule import (
    CompileError,
    CompileOptions,
    DoesNotFit,
    Image,
    Place,
    Scheduled,
    Segment,
    schedule_segment,
)
from matloom.schedule.state import overwritten, state_places
from matloom.select.context import BROADCASTING, source_name
from matloom.select.lookup import fuse_tables
from matloom.select.partition import EngineRun, HostRun, Partition
from matloom.select.rewrites.elide_copies import elide_copies
from matloom.select.rewrites.store_slices import View, store_slices
from matloom.select.stage import ArrayStage, Stage

__all__ = ["lower"]


def _tensor_info(name: str, tensor: Tensor) -> TensorInfo:
    quantised = None
    if tensor.quantisation is not None and len(tensor.quantisation.scale) == 1:
        quantised = Quantised(scale=tensor.scale, zero_point=tensor.zero_point)
    return TensorInfo(name=name, shape=tensor.shape, dtype=tensor.dtype, quantised=quantised)


def _packed(instructions: list[Instruction], config: Config) -> bytes:
    """Return the command buffer; raise `CompileError` where a field is out of range."""
    table = InstructionTable(instructions)
    problem = table.illegal(config)
    if problem is not None:
        raise CompileError(f"the network does not fit the instruction set: {problem}")
    return table.packed()


def _spent(timestamps: list[int], completions: dict[int, int]) -> list[int]:
    """Return the cycles from each timestamp's predecessor to it."""
    spent, before = [], 0
    for timestamp in timestamps:
        done = completions.get(timestamp, before)
        spent.append(max(0, done - before))
        before = max(before, done)
    return spent


def _mode(stages: tuple[Stage, ...]) -> str:
    """Return the mode of the products of an operator."""
    modes = {stage.mode for stage in stages if isinstance(stage, ArrayStage) and stage.macs}
    return ", ".join(sorted(modes))


@dataclass
class _Lowering:
    """What grows while the runs are lowered, one after another."""

    graph: Graph
    parts: Partition
    names: dict[int, str]
    config: Config
    options: CompileOptions
    #: Of the tensors of variables that stay in external memory.
    state: dict[int, Place] = field(default_factory=dict)
    state_bytes: int = 0
    #: Whether variables may be stored out of tensors that hold them.
    slices: bool = True
    #: Variables, by their first tensor, that are read after they are written.
    overwritten: set[int] = field(default_factory=set)
    image: Image = field(default_factory=Image)
    commands: list[bytes] = field(default_factory=list)
    steps: list[EngineStep | HostStep] = field(default_factory=list)
    layers: list[LayerInfo] = field(default_factory=list)
    region_bytes: dict[Region, int] = field(default_factory=dict)
    constants: dict[int, Constant] = field(default_factory=dict)
    host_data: bytearray = field(default_factory=bytearray)
    next_mark: int = 1

    def _bindings(self, region: Region, numbers: tuple[int, ...]) -> tuple[Binding, ...]:
        """Give tensors places in a region; those that share bytes share their place.

        Variables that stay in external memory have theirs.
        """
        offsets: dict[int, int] = {}
        end = 0
        for number in numbers:
            if number in self.state:
                continue
            root = self.parts.roots[number]
            if root not in offsets:
                offsets[root] = end
                end += -(-self.graph.tensors[number].size_bytes // ALIGNMENT) * ALIGNMENT
        self.region_bytes[region] = max(self.region_bytes.get(region, 0), end)
        return tuple(
            self._binding(number, self.state[number])
            if number in self.state
            else self._binding(
                number, Place(region=region, offset=offsets[self.parts.roots[number]])
            )
            for number in numbers
        )

    def _binding(self, number: int, place: Place) -> Binding:
        return Binding(
            name=self.names[number],
            region=place.region,
            offset=place.offset,
            shape=self.graph.tensors[number].shape,
            dtype=self.graph.tensors[number].dtype,
        )

    def _places(self, bindings: tuple[Binding, ...], numbers: tuple[int, ...]) -> dict[str, Place]:
        return {
            self.names[self.parts.roots[number]]: Place(
                region=binding.region, offset=binding.offset
            )
            for number, binding in zip(numbers, bindings, strict=True)
        }

    def _constants(self, run: EngineRun) -> dict[str, tuple[Place, int]]:
        """Put constants that stages read as tensors into the image, broadcast to the result."""
        found = {}
        read = {name for stages in run.stages for stage in stages for name in stage.inputs}
        for node in run.nodes:
            for number in node.inputs:
                data = self.graph.tensors[number].data
                name = source_name(self.graph, node, number, self.names)
                if name in read and data is not None:
                    wide = node.op in BROADCASTING
                    shape = self.graph.tensors[node.outputs[0]].shape if wide else data.shape
                    values = np.broadcast_to(data, shape).tobytes()
                    place = Place(region=Region.PROGRAM, offset=self.image.add(values))
                    found[name] = (place, len(values))
        return found

    def engine(self, run: EngineRun) -> None:
        """Schedule a run and append its step; the offset of its commands follows at the end."""
        inputs = self._bindings(Region.INPUT, run.consumed)
        outputs = self._bindings(Region.OUTPUT, run.produced)
        run, views = self._rewritten(run)
        scheduled = schedule_segment(
            self._segment(run, self._places(inputs, run.consumed), outputs, views),
            self.config,
            self.options,
            self.image,
            arena_start=self.state_bytes,
            output_bytes=self.region_bytes[Region.OUTPUT],
            may_pin=sum(isinstance(other, EngineRun) for other in self.parts.runs) == 1,
        )
        if isinstance(scheduled, DoesNotFit):
            raise CompileError(scheduled.reason)
        self._find_overwritten(scheduled)
        arena = max(self.region_bytes.get(Region.ARENA, 0), scheduled.arena_end)
        self.region_bytes[Region.ARENA] = arena
        offset, size = self._commands(scheduled.instructions)
        repeat = self._repeat(scheduled)
        self._engine_layers(run, scheduled)
        self.steps.append(
            EngineStep(
                command_offset=offset,
                command_bytes=size,
                inputs=inputs,
                outputs=outputs,
                predicted_cycles=scheduled.prediction.cycles,
                repeat=repeat,
            )
        )

    def _rewritten(self, run: EngineRun) -> tuple[EngineRun, dict[str, View]]:
        """Return a run without stages that others can do without, and what is stored in part."""
        if self.options.plain:
            return run, {}
        kept = {self.names[self.parts.roots[at]] for at in (*run.consumed, *run.produced)}
        run = dataclasses.replace(run, stages=fuse_tables(run.stages, kept))
        views: dict[str, View] = {}
        if self.slices:
            names = {number: self.names[root] for number, root in self.parts.roots.items()}
            run, views = store_slices(self.graph, run, names, self.state)
        stages = elide_copies(run.stages, kept | views.keys())
        return dataclasses.replace(run, stages=stages), views

    def _segment(
        self,
        run: EngineRun,
        sources: dict[str, Place],
        outputs: tuple[Binding, ...],
        views: dict[str, View],
    ) -> Segment:
        """Return what is scheduled of a run; its constants go into the image."""
        constants = self._constants(run)
        sources = {**sources, **{name: place for name, (place, _) in constants.items()}}
        sizes = self._sizes(run)
        sizes.update({name: size for name, (_, size) in constants.items()})
        stages = tuple(stage for stages in run.stages for stage in stages)
        for stage in stages:
            if isinstance(stage, ArrayStage) and stage.row_folding is not None:
                assert stage.inputs[0] not in sizes
                sizes[stage.inputs[0]] = stage.row_folding.size
                sources[stage.inputs[0]] = sources[stage.row_folding.source]
            if stage.output not in sizes:
                sizes[stage.output] = stage.size
        used = {name for stage in stages for name in (*stage.inputs, stage.output)}
        return Segment(
            stages=stages,
            machine=Machine(config=self.config, memory=self.options.memory),
            sizes={name: size for name, size in sizes.items() if name in used},
            sources=sources,
            results=_with_views(self._places(outputs, run.produced), views),
            views={name: (start, end) for name, (_output, start, end) in views.items()},
            timestamps=self._timestamps(run),
        )

    def _sizes(self, run: EngineRun) -> dict[str, int]:
        """Return the bytes of the tensors that are not constant, by the names of their roots."""
        sizes = {}
        for node in run.nodes:
            for number in (*node.inputs, *node.outputs):
                if self.graph.tensors[number].data is None:
                    root = self.parts.roots[number]
                    sizes[self.names[root]] = self.graph.tensors[root].size_bytes
        return sizes

    def _repeat(self, scheduled: Scheduled) -> Repeat | None:
        """Return the commands for later calls, where weights stay on chip."""
        again = scheduled.repeat
        if again is None:
            return None
        offset, size = self._commands(again.instructions)
        return Repeat(
            command_offset=offset,
            command_bytes=size,
            predicted_cycles=again.prediction.cycles,
            kept=again.kept,
        )

    def _find_overwritten(self, scheduled: Scheduled) -> None:
        """Note the variables that a command buffer would read after they are written."""
        before = {
            (place.offset, place.offset + self.graph.tensors[variable.before].size_bytes): (
                variable.before
            )
            for variable in self.graph.variables
            if (place := self.state.get(variable.before)) is not None
        }
        again = [] if scheduled.repeat is None else scheduled.repeat.instructions
        for instructions in (scheduled.instructions, again):
            found = overwritten(instructions, before, self.config)
            self.overwritten.update(number for place, number in before.items() if place[0] in found)

    def _timestamps(self, run: EngineRun) -> tuple[int, ...]:
        """Return a timestamp for the last stage of each operator, and none for its others."""
        timestamps: list[int] = []
        for number, stages in enumerate(run.stages, self.next_mark):
            timestamp = min(number, self.config.last_timestamp)
            timestamps.extend([0] * (len(stages) - 1) + [timestamp] * bool(stages))
        return tuple(timestamps)

    def _commands(self, instructions: list[Instruction]) -> tuple[int, int]:
        """Keep a command buffer; return its number, which stands for its offset, and its size."""
        self.commands.append(_packed(instructions, self.config))
        return len(self.commands) - 1, len(self.commands[-1])

    def _engine_layers(self, run: EngineRun, scheduled: Scheduled) -> None:
        timestamps = [
            min(number, self.config.last_timestamp) if stages else 0
            for number, stages in enumerate(run.stages, self.next_mark)
        ]
        self.next_mark += len(timestamps)
        first = _spent(timestamps, scheduled.prediction.timestamps)
        later = [0] * len(timestamps)
        if scheduled.repeat is not None:
            later = _spent(timestamps, scheduled.repeat.prediction.timestamps)
        for index, node in enumerate(run.nodes):
            self.layers.append(
                LayerInfo(
                    name=self.names[node.outputs[0]],
                    operator=str(node.op),
                    where="engine",
                    timestamp=timestamps[index],
                    macs=macs(self.graph, node),
                    predicted_cycles=first[index],
                    tensor_bytes=tensor_bytes(self.graph, node),
                    repeat_cycles=later[index],
                    mode=_mode(run.stages[index]),
                )
            )

    def host(self, run: HostRun) -> None:
        """Append a step of the host, with the constants that it reads."""
        node = run.node
        for number in node.inputs:
            self._constant(number)
        self.steps.append(
            HostStep(
                operator=str(node.op),
                inputs=tuple(self.names[number] for number in node.inputs),
                outputs=tuple(self.names[number] for number in node.outputs),
                attributes=dataclasses.asdict(node.attributes),
                reason=run.reason,
            )
        )
        names: tuple[str, ...] = (str(node.op),)
        counts = [macs(self.graph, node)]
        if isinstance(node.attributes, Reference):
            names, content = node.attributes.operators, self.graph.tensors[node.inputs[-1]].data
            assert content is not None
            counts = file_macs(content.tobytes(), names, node.attributes.positions)
        self.layers.extend(
            LayerInfo(
                name=self.names[node.outputs[0]],
                operator=name,
                where="host",
                macs=count,
                reason=run.reason,
                tensor_bytes=tensor_bytes(self.graph, node),
            )
            for name, count in zip(names, counts, strict=True)
        )

    def _host_bytes(self, array: Array) -> int:
        """Keep an array for the host; return its offset."""
        self.host_data.extend(bytes(-len(self.host_data) % CONSTANT_ALIGNMENT))
        offset = len(self.host_data)
        self.host_data.extend(array.tobytes())
        return offset

    def _variable(self, variable: Variable) -> VariableInfo:
        place = self.state.get(variable.before)
        return VariableInfo(
            name=variable.name,
            before=self.names[variable.before],
            after=self.names[variable.after],
            initial=self._host_bytes(variable.initial),
            place=None if place is None else self._binding(variable.before, place),
        )

    def _constant(self, number: int) -> None:
        """Keep a tensor for the host, once, if it is constant."""
        tensor = self.graph.tensors[number]
        if tensor.data is None or number in self.constants:
            return
        quantisation = tensor.quantisation
        self.constants[number] = Constant(
            name=self.names[number],
            offset=self._host_bytes(tensor.data),
            shape=tensor.shape,
            dtype=tensor.dtype,
            scales=() if quantisation is None else quantisation.scale,
            zero_points=() if quantisation is None else quantisation.zero_point,
            axis=None if quantisation is None else quantisation.axis,
        )

    def program(self) -> Program:
        """Return the program: constants first, then command buffers."""
        image = bytearray(bytes(self.image))
        offsets = []
        for commands in self.commands:
            image.extend(bytes(-len(image) % ALIGNMENT))
            offsets.append(len(image))
            image.extend(commands)
        assert all(offset % INSTRUCTION_WORD_BYTES == 0 for offset in offsets)
        steps = tuple(
            _placed(step, offsets) if isinstance(step, EngineStep) else step for step in self.steps
        )
        for number in self.graph.leaving:
            self._constant(number)
        named = {
            self.names[number]: _tensor_info(self.names[number], tensor)
            for number, tensor in self.graph.tensors.items()
            if tensor.data is None or number in self.graph.leaving
        }
        used = {self.names[number] for number in (*self.graph.entering, *self.graph.leaving)}
        for step in steps:
            for item in (*step.inputs, *step.outputs):
                used.add(item.name if isinstance(item, Binding) else item)
        variables = tuple(map(self._variable, self.graph.variables))
        return Program(
            name=self.graph.name,
            config=self.config,
            memory=self.options.memory,
            image=bytes(image),
            region_bytes={
                region: len(image) if region is Region.PROGRAM else self.region_bytes.get(region, 0)
                for region in Region
            },
            inputs=tuple(named[self.names[number]] for number in self.graph.inputs),
            outputs=tuple(named[self.names[number]] for number in self.graph.outputs),
            tensors=tuple(info for name, info in named.items() if name in used),
            steps=steps,
            layers=tuple(self.layers),
            variables=variables,
            constants=tuple(self.constants.values()),
            host_data=bytes(self.host_data),
        )


def _with_views(results: dict[str, Place], views: Mapping[str, View]) -> dict[str, Place]:
    """Return the places of results, for views those of the tensors that hold them.

    Such a place is where the tensor would begin, of which only the view is stored.
    """
    places = dict(results)
    for name, (output, start, _end) in views.items():
        place = places.pop(output)
        places[name] = dataclasses.replace(place, offset=place.offset - start)
    return places


def _placed(step: EngineStep, offsets: list[int]) -> EngineStep:
    """Return a step with the offsets of its command buffers for their numbers."""
    repeat = step.repeat
    if repeat is not None:
        repeat = dataclasses.replace(repeat, command_offset=offsets[repeat.command_offset])
    offset = offsets[step.command_offset]
    return dataclasses.replace(step, command_offset=offset, repeat=repeat)


def lower(
    graph: Graph,
    parts: Partition,
    names: dict[int, str],
    config: Config,
    options: CompileOptions,
) -> Program:
    """Return the program of a partitioned graph; `names` must differ between its tensors.

    Raises
    ------
    CompileError
        Where a run does not fit the engine.
    """
    refused: set[int] = set()
    slices = bool(graph.variables)
    while True:
        state, size = state_places(graph, parts, refused)
        lowering = _Lowering(graph, parts, names, config, options, state, size, slices)
        try:
            for run in parts.runs:
                if isinstance(run, EngineRun):
                    lowering.engine(run)
                else:
                    lowering.host(run)
        except CompileError:
            # Tensors that variables are stored out of stay on chip, which may be too much.
            if not slices:
                raise
            slices = False
            continue
        if not lowering.overwritten:
            return lowering.program()
        refused |= lowering.overwritten
