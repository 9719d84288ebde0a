"""Assembles scheduled runs into a Program: its image of constants, regions, steps and layers."""

from dataclasses import asdict

from matloom import frontend
from matloom.arch.isa import INSTRUCTION_WORD_BYTES, Region
from matloom.arch.program_file import CONSTANT_ALIGNMENT
from matloom.compiler.bind import binding
from matloom.compiler.values import Compiled, Job, Retry, ScheduledNetwork, ScheduledRun
from matloom.cost.arrivals import LONGEST_BURST
from matloom.ir.attributes import Reference
from matloom.ir.graph import Array, Tensor, Variable
from matloom.ir.work import shared_macs, tensor_bytes
from matloom.program import (
    Binding,
    EngineStep,
    HostConstant,
    HostStep,
    LayerInfo,
    Program,
    Quantised,
    Repeat,
    TensorInfo,
    VariableInfo,
)
from matloom.select.partition import HostRun
from matloom.select.stage import Stage


def assemble(scheduled: ScheduledNetwork, job: Job) -> Compiled | Retry:
    """Return the program made of scheduled runs, with the graphs that its check needs.

    Return a `Retry` that gives up if the options require resident weights and they do not fit.
    """
    prepared = scheduled.bound.rewritten.selected.prepared
    program = _Assembly(scheduled, job).program()
    if job.options.resident and program.repeat is None:
        buffers = sum(isinstance(step, EngineStep) for step in program.steps)
        return Retry(
            reason=f"for resident weights, all of them must fit the {job.config.spad_bytes} bytes "
            f"of scratchpad next to the tensors, in one command buffer, not {buffers}"
        )
    numbers = {name: number for number, name in prepared.names.items()}
    return Compiled(
        program=program, graph=prepared.meaning, prepared=prepared.graph, numbers=numbers
    )


def _tensor_info(name: str, key: str, tensor: Tensor) -> TensorInfo:
    """Return a tensor's description for users; `key` is its unique name in the program."""
    quantised = None
    if tensor.quantisation is not None and len(tensor.quantisation.scale) == 1:
        quantised = Quantised(scale=tensor.scale, zero_point=tensor.zero_point)
    return TensorInfo(
        name=name,
        shape=tensor.shape,
        dtype=tensor.dtype,
        quantised=quantised,
        unique="" if key == name else key,
    )


def _cycles_between(timestamps: tuple[int, ...], completions: dict[int, int]) -> list[int]:
    """Return, for each timestamp slot, the cycles from the latest earlier completion to its own.

    `completions` maps timestamps to the cycles at which they complete. A timestamp without a
    completion takes 0 cycles, and so does one that completes before an earlier one.
    """
    spent, before = [], 0
    for timestamp in timestamps:
        done = completions.get(timestamp, before)
        spent.append(max(0, done - before))
        before = max(before, done)
    return spent


def _mode_names(stages: tuple[Stage, ...]) -> str:
    """Return the number formats in which an operator multiplies, separated by commas, or ""."""
    modes = {mode for stage in stages for mode in stage.used_modes}
    return ", ".join(sorted(modes))


class _Assembly:
    """Builder of a program: collects image, steps, layers and constants, one run after another."""

    def __init__(self, scheduled: ScheduledNetwork, job: Job):
        self.scheduled, self.job = scheduled, job
        self.rewritten = scheduled.bound.rewritten
        self.graph = self.rewritten.selected.prepared.graph
        self.macs = shared_macs(self.graph, self.rewritten.selected.prepared.meaning)
        self.names = self.rewritten.selected.prepared.names
        self.image = bytearray(scheduled.image)
        self.steps: list[EngineStep | HostStep] = []
        self.layers: list[LayerInfo] = []
        self.constants: dict[int, HostConstant] = {}
        self.host_data = bytearray()

    def _append_commands(self, commands: bytes) -> int:
        """Append a command buffer to the image, after the constants; return its offset.

        The offset is aligned to the longest burst. Anywhere else the first burst would be shorter
        and read less ahead, which the prediction does not model.
        """
        self.image.extend(bytes(-len(self.image) % LONGEST_BURST))
        offset = len(self.image)
        assert offset % INSTRUCTION_WORD_BYTES == 0
        self.image.extend(commands)
        return offset

    def _append_engine_run(self, run: ScheduledRun) -> None:
        """Append the step, the commands and the layers of a run on the engine."""
        self.steps.append(
            EngineStep(
                command_offset=self._append_commands(run.commands),
                command_bytes=len(run.commands),
                inputs=run.bound.inputs,
                outputs=run.bound.outputs,
                predicted_cycles=run.scheduled.prediction.cycles,
                repeat=self._append_repeat(run),
            )
        )
        self._append_engine_layers(run)

    def _append_repeat(self, run: ScheduledRun) -> Repeat | None:
        """Append the commands of later calls, and return their address and size.

        Returns None if no weights stay on chip between calls.
        """
        again = run.scheduled.repeat
        if again is None:
            return None
        assert run.repeat_commands is not None
        return Repeat(
            command_offset=self._append_commands(run.repeat_commands),
            command_bytes=len(run.repeat_commands),
            predicted_cycles=again.prediction.cycles,
            kept=again.weight_ranges,
        )

    def _append_engine_layers(self, run: ScheduledRun) -> None:
        """Append a description of each operator of an engine run, with its predicted cycles."""
        staged, timestamps, again = run.bound.staged, run.bound.timestamps, run.scheduled.repeat
        first = _cycles_between(timestamps, run.scheduled.prediction.timestamps)
        later = [0] * len(timestamps)
        if again is not None:
            later = _cycles_between(timestamps, again.prediction.timestamps)
        for index, node in enumerate(staged.run.nodes):
            self.layers.append(
                LayerInfo(
                    name=self.names[node.outputs[0]],
                    operator=str(node.op),
                    where="engine",
                    timestamp=timestamps[index],
                    macs=self.macs[node.outputs[0]],
                    predicted_cycles=first[index],
                    tensor_bytes=tensor_bytes(self.graph, node),
                    repeat_cycles=later[index],
                    mode=_mode_names(staged.stages[index]),
                    reason=self.graph.remarks.get(node.index, ""),
                )
            )

    def _append_host_run(self, run: HostRun) -> None:
        """Append the step of a run on the host, the constants that it reads, and its layers."""
        node = run.node
        for number in node.inputs:
            self._store_constant(number)
        self.steps.append(
            HostStep(
                operator=str(node.op),
                inputs=tuple(self.names[number] for number in node.inputs),
                outputs=tuple(self.names[number] for number in node.outputs),
                attributes=asdict(node.attributes),
                reason=run.reason,
            )
        )
        names: tuple[str, ...] = (str(node.op),)
        reasons: tuple[str, ...] = (run.reason,)
        counts = [self.macs.get(node.outputs[0], 0)]
        if isinstance(node.attributes, Reference):
            names, content = node.attributes.operators, self.graph.tensors[node.inputs[-1]].data
            assert content is not None
            counts = frontend.macs(content.tobytes(), names, node.attributes.positions)
            reasons = tuple(f"{reason}: {run.reason}" for reason in node.attributes.reasons)
        self.layers.extend(
            LayerInfo(
                name=self.names[node.outputs[0]],
                operator=name,
                where="host",
                macs=count,
                reason=reason,
                tensor_bytes=tensor_bytes(self.graph, node),
            )
            for name, count, reason in zip(names, counts, reasons, strict=True)
        )

    def _append_host_bytes(self, array: Array) -> int:
        """Append an array to the data for the host; return its offset in bytes."""
        self.host_data.extend(bytes(-len(self.host_data) % CONSTANT_ALIGNMENT))
        offset = len(self.host_data)
        self.host_data.extend(array.tobytes())
        return offset

    def _variable_info(self, variable: Variable) -> VariableInfo:
        """Return a variable's description; append its initial bytes to the data for the host."""
        place = self.rewritten.state.get(variable.before)
        return VariableInfo(
            name=variable.name,
            before=self.names[variable.before],
            after=self.names[variable.after],
            initial=self._append_host_bytes(variable.initial),
            place=None if place is None else binding(self.rewritten, variable.before, place),
        )

    def _store_constant(self, number: int) -> None:
        """Store a tensor for host steps if it is constant and not stored already."""
        tensor = self.graph.tensors[number]
        if tensor.data is None or number in self.constants:
            return
        quantisation = tensor.quantisation
        self.constants[number] = HostConstant(
            name=self.names[number],
            offset=self._append_host_bytes(tensor.data),
            shape=tensor.shape,
            dtype=tensor.dtype,
            scales=() if quantisation is None else quantisation.scale,
            zero_points=() if quantisation is None else quantisation.zero_point,
            axis=None if quantisation is None else quantisation.axis,
        )

    def _region_bytes(self) -> dict[Region, int]:
        """Return the size in bytes of each region of external memory that engine runs use."""
        runs = [run for run in self.scheduled.runs if isinstance(run, ScheduledRun)]
        return {
            Region.PROGRAM: len(self.image),
            Region.INPUT: self.scheduled.bound.input_bytes,
            Region.OUTPUT: self.scheduled.bound.output_bytes,
            Region.ARENA: max((run.scheduled.arena_end for run in runs), default=0),
        }

    def _tensors(self) -> dict[int, TensorInfo]:
        """Return the tensors that a user, a step or a variable may refer to, by tensor number."""
        ends = {*self.graph.inputs, *self.graph.outputs}
        named = {
            number: _tensor_info(
                tensor.name if number in ends else self.names[number], self.names[number], tensor
            )
            for number, tensor in self.graph.tensors.items()
            if tensor.data is None or number in self.graph.leaving
        }
        used = {self.names[number] for number in (*self.graph.entering, *self.graph.leaving)}
        for step in self.steps:
            for item in (*step.inputs, *step.outputs):
                used.add(item.name if isinstance(item, Binding) else item)
        return {number: info for number, info in named.items() if info.key in used}

    def program(self) -> Program:
        """Return the finished program: constants first, then command buffers."""
        for run in self.scheduled.runs:
            if isinstance(run, HostRun):
                self._append_host_run(run)
            else:
                self._append_engine_run(run)
        for number in self.graph.leaving:
            self._store_constant(number)
        tensors = self._tensors()
        return Program(
            name=self.graph.name,
            config=self.job.config,
            memory=self.job.options.memory,
            image=bytes(self.image),
            region_bytes=self._region_bytes(),
            inputs=tuple(tensors[number] for number in self.graph.inputs),
            outputs=tuple(tensors[number] for number in self.graph.outputs),
            tensors=tuple(tensors.values()),
            steps=tuple(self.steps),
            layers=tuple(self.layers),
            variables=tuple(map(self._variable_info, self.graph.variables)),
            constants=tuple(self.constants.values()),
            host_data=bytes(self.host_data),
        )
