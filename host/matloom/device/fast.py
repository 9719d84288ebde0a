"""Device ``fast``, which computes results with the operators' kernels, for many samples."""

from collections.abc import Mapping

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Region
from matloom.arch.numerics import to_limbs
from matloom.device.errors import DeviceError
from matloom.device.model.transport import ModelTransport
from matloom.ir.graph import Array
from matloom.kernels.definition import Definition
from matloom.program import Binding, EngineStep, Program


class FastTransport(ModelTransport):
    """Registers and external memory of the functional model, but without its engine.

    Starting a session's command buffer runs the NumPy kernels of its operators instead of its
    instructions. All else is as on the model: external memory, variables in it, several programs,
    host steps, and command buffers that belong to no session. Kernels and instructions return the
    same bytes, as checked at compile time (`Program.verdict`). Counters read as zero, so reports
    show the predicted cycles.

    Raises
    ------
    DeviceError
        `learn` was called with a program from a file, which does not contain its operators.
    """

    def __init__(self, config: Config, memory_bytes: int = 1 << 24) -> None:
        super().__init__(config, memory_bytes)
        self._steps: dict[tuple[int, int], EngineStep] = {}
        self._definition: Definition | None = None
        self._numbers: Mapping[str, int] = {}

    def learn(self, program: Program) -> None:
        """Run the command buffers of this program, but of no other, with the operators' kernels.

        Raises DeviceError if the program was read from a file.
        """
        if program.origin is None:
            raise DeviceError(
                f"device 'fast' cannot run the program {program.name!r}: a program file has "
                "instructions, and this device computes the network's operators",
                hint="give it the network itself, or run the program on device 'model'",
            )
        self._numbers = program.origin.numbers
        self._definition = Definition(program.origin.prepared, self.config.float_rows)
        self._steps = {}
        for step in program.steps:
            if isinstance(step, EngineStep):
                for buffer in (step, step.repeat):
                    if buffer is not None:
                        self._steps[buffer.command_offset, buffer.command_bytes] = step

    def _execute(self) -> None:
        """Compute the outputs of the command buffer with kernels if it is known, else run it."""
        step = self._steps.get((self._get("COMMAND_OFFSET"), self._get("COMMAND_BYTES")))
        if step is None or self._definition is None:
            super()._execute()
            return
        self.engine.executed = 0
        inputs = {self._numbers[item.name]: self._read_tensor(item) for item in step.inputs}
        self._definition.reset(inputs)
        results = [self._definition.value(self._numbers[item.name]) for item in step.outputs]
        for item, array in zip(step.outputs, results, strict=True):
            self._write_tensor(item, array)

    def _read_tensor(self, binding: Binding) -> Array:
        """Return a tensor from its place in external memory."""
        size = int(np.prod(binding.shape)) * np.dtype(binding.dtype).itemsize
        raw = self.engine.regions[binding.region][binding.offset :][:size].tobytes()
        return np.frombuffer(raw, binding.dtype).reshape(binding.shape)

    def _write_tensor(self, binding: Binding, array: Array) -> None:
        """Write a tensor to its place in external memory; int32 results in byte limbs."""
        if binding.dtype == "int32" and binding.region is Region.OUTPUT:
            # As the lanes write them: limbs of sums.
            array = np.stack(to_limbs(array.astype(np.int64))).astype(np.int8)
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.engine.regions[binding.region][binding.offset :][: data.size] = data
