"""Runs a program's steps on functional model and host, from memories with arbitrary contents."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matloom.arch.isa import Region
from matloom.arch.modes import FLOAT_MODES
from matloom.arch.numerics import from_limbs
from matloom.device.model.engine import Engine
from matloom.ir.graph import Array, Op
from matloom.kernels.moves import IndexRangeError
from matloom.kernels.reference import InterpreterError
from matloom.kernels.step import HostSteps
from matloom.program import Binding, EngineStep, HostStep, Program


class EngineAndHost:
    """Functional model of the engine, and host, that run the steps of one program.

    Members
    -------
    refusal:
        Why no interpreter runs the opaque operators, whose outputs are then drawn at random; empty
        if one does, or there are no such operators.
    constants:
        Constants of the program, by tensor name.
    """

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self._draw = program, np.random.default_rng(seed)
        self.engine = Engine(program.config)
        self.refusal = ""
        self._failed: set[int] = set()
        self._host = self._host_steps()
        self.constants = self._host.constants
        self._tensors = {info.key: info for info in program.tensors}

    def _host_steps(self) -> HostSteps:
        """Return the host steps; record why if those of an interpreter cannot run."""
        try:
            return HostSteps(self.program)
        except InterpreterError as error:
            self.refusal = str(error)
        known = (step for step in self.program.steps if not _runs_interpreter(step))
        return HostSteps(dataclasses.replace(self.program, steps=tuple(known)))

    def restart(self) -> None:
        """Fill all memories with arbitrary bytes, then write the program, as a session does."""
        # Reuse the engine, which has already decoded the commands.
        for region, size in self.program.region_bytes.items():
            self.engine.regions[region] = self._garbage(size)
        image = np.frombuffer(self.program.image, np.uint8)
        self.engine.regions[Region.PROGRAM][: image.size] = image
        self.engine.spad[...] = self._garbage(self.engine.spad.size)
        entries = self.engine.accumulators
        entries[...] = self._garbage(entries.nbytes).view(np.int32).reshape(entries.shape)
        for table in (self.engine.tables.bytes, self.engine.tables.exponentials):
            table[...] = self._garbage(table.size).reshape(table.shape)

    def _garbage(self, size: int) -> NDArray[np.uint8]:
        """Return `size` random bytes, or zeros if a layer has a floating-point mode.

        In such a mode, bytes after a kernel row are multiplied by zero, so infinities or NaNs would
        change sums (docs/numerics.md).
        """
        if any(layer.mode in FLOAT_MODES for layer in self.program.layers):
            return np.zeros(size, np.uint8)
        return self._draw.integers(0, 256, size, np.uint8)

    def run(
        self, step: EngineStep | HostStep, values: Mapping[str, Array], *, repeated: bool
    ) -> dict[str, Array]:
        """Run a step on inputs from `values`; return its outputs by name.

        With `repeated`, an engine step runs the command buffer for later calls, if it has one.
        Raises `EngineFaultError` if the engine stops.
        """
        if isinstance(step, EngineStep):
            return self._run_engine(step, values, repeated)
        try:
            if not self.draws_outputs(step):
                return self._host.run(step, values)
        except (InterpreterError, IndexRangeError):
            # Operators may refuse unrealistic values.
            self._failed.add(id(step))
        return {name: self._random_tensor(name) for name in step.outputs}

    def draws_outputs(self, step: EngineStep | HostStep) -> bool:
        """Return whether a step's outputs are drawn at random, because no interpreter runs it."""
        return id(step) in self._failed or (bool(self.refusal) and _runs_interpreter(step))

    def _random_tensor(self, name: str) -> Array:
        """Return random bytes in the shape and type of the tensor `name`."""
        info = self._tensors[name]
        raw = self._draw.integers(-128, 128, info.shape)
        return raw.astype(info.dtype)

    def write_variables(self, values: Mapping[str, Array]) -> None:
        """Write the variables among `values` to their addresses in external memory."""
        for variable in self.program.variables:
            if variable.place is not None and variable.before in values:
                self._write_tensor(variable.place, values[variable.before])

    def read_variables(self) -> dict[str, Array]:
        """Return the variables in external memory, by the name of the tensor after a call."""
        return {
            variable.after: self._read_tensor(variable.place)
            for variable in self.program.variables
            if variable.place is not None
        }

    def _write_tensor(self, binding: Binding, array: Array) -> None:
        """Write an array to the address of a tensor in external memory."""
        data = np.ascontiguousarray(array, binding.dtype)
        raw = np.frombuffer(data.tobytes(), np.uint8)
        self.engine.regions[binding.region][binding.offset :][: raw.size] = raw

    def _run_engine(
        self, step: EngineStep, values: Mapping[str, Array], repeated: bool
    ) -> dict[str, Array]:
        """Run an engine step on its inputs in `values`; return its outputs by name."""
        for binding in step.inputs:
            if binding.region is not Region.ARENA:
                self._write_tensor(binding, values[binding.name])
        commands = step.repeat if repeated and step.repeat is not None else step
        self.engine.run(self.program.commands(commands))
        return {binding.name: self._read_tensor(binding) for binding in step.outputs}

    def _read_tensor(self, binding: Binding) -> Array:
        """Return a tensor from its address in external memory; int32 from its byte planes."""
        count, dtype = int(np.prod(binding.shape)), np.dtype(binding.dtype)
        memory = self.engine.regions[binding.region][binding.offset :]
        raw = memory[: count * dtype.itemsize].tobytes()
        if binding.dtype == "int32":
            limbs = np.frombuffer(raw, np.int8).reshape(-1, *binding.shape)
            return np.asarray(from_limbs(limbs.astype(np.int32)))
        return np.frombuffer(raw, dtype).reshape(binding.shape)


def _runs_interpreter(step: EngineStep | HostStep) -> bool:
    """Return whether a step runs on an interpreter of the model's framework."""
    return isinstance(step, HostStep) and step.operator == Op.REFERENCE
