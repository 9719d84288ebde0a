"""Contents of a program file: all that a device and its host need to run a network."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.arch.config import Config
from matloom.arch.config_name import describe_config
from matloom.arch.isa import Opcode, Region, largest
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.arch.modes import MODES
from matloom.ir.work import is_counted
from matloom.program.errors import ProgramError
from matloom.program.records import (
    EngineStep,
    HostConstant,
    HostStep,
    LayerInfo,
    PreprocessInfo,
    Repeat,
    TensorInfo,
    VariableInfo,
    Verdict,
)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Instructions, constants, buffers and host steps of a network for one configuration.

    Members
    -------
    name:
        Name of the network.
    config:
        Configuration for which it was compiled.
    image:
        Contents of region PROGRAM: constants and commands.
    region_bytes:
        Size of each region in bytes.
    inputs, outputs:
        Inputs and outputs of the network, in the model file's order.
    tensors:
        Every tensor that steps refer to.
    steps:
        Engine and host steps in order of execution.
    layers:
        Operators of the network, for reports.
    memory:
        External memory for which cycles are predicted.
    variables:
        Variables that keep their values between calls.
    constants, host_data:
        Constants that host steps read, and the bytes of these constants and of initial values; the
        device has no copy.
    verdict:
        Result of the checks at compile time; None if there were none.
    preprocessing:
        Preprocessing that turns raw data into inputs.
    """

    name: str
    config: Config
    image: bytes
    region_bytes: dict[Region, int]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    tensors: tuple[TensorInfo, ...]
    steps: tuple[EngineStep | HostStep, ...]
    layers: tuple[LayerInfo, ...] = ()
    variables: tuple[VariableInfo, ...] = ()
    constants: tuple[HostConstant, ...] = ()
    host_data: bytes = b""
    verdict: Verdict | None = None
    memory: Memory = REFERENCE_MEMORY
    preprocessing: tuple[PreprocessInfo, ...] = ()

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of the network's operators, without `uncounted` ones."""
        return sum(layer.macs for layer in self.layers)

    @property
    def engine_macs(self) -> int:
        """Number of multiply-accumulates of the operators that run on the engine."""
        return sum(layer.macs for layer in self.layers if layer.where == "engine")

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Names of operators whose number of multiply-accumulates is unknown, each once."""
        names = (layer.operator for layer in self.layers if not is_counted(layer.operator))
        return tuple(dict.fromkeys(names))

    @property
    def state_bytes(self) -> int:
        """Size of all variables in bytes."""
        return sum(array.nbytes for array in self.initial_state().values())

    def initial_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the initial values of variables, by name."""
        infos = {info.key: info for info in self.tensors}
        found = {}
        for variable in self.variables:
            info = infos[variable.before]
            count = math.prod(info.shape)
            array = np.frombuffer(self.host_data, info.dtype, count, variable.initial)
            found[variable.name] = array.reshape(info.shape)
        return found

    @property
    def shared_timestamps(self) -> frozenset[int]:
        """Slots of the completion-time table that several operators share."""
        users = Counter(layer.timestamp for layer in self.layers if layer.timestamp)
        return frozenset(timestamp for timestamp, count in users.items() if count > 1)

    @property
    def shared_slots(self) -> str:
        """Sentence on operators that share a timestamp (cycles known as a sum); empty if none."""
        shared = self.shared_timestamps
        count = sum(layer.timestamp in shared for layer in self.layers)
        if not count:
            return ""
        enough = 1 << sum(layer.where == "engine" for layer in self.layers).bit_length()
        most = largest(Opcode.POST, "timestamp") + 1
        return (
            f"{count} operators share a slot of the completion-time table, so only the sum of "
            f"their cycles is known: timestamps={min(enough, most)} has more slots"
        )

    def utilisation(self, cycles: int) -> float:
        """Return the fraction of `cycles` that a fully used array would need.

        Each operator keeps its number format. The result is 0.0 if `cycles` is 0.
        """
        ideal = sum(self.ideal_cycles(layer) for layer in self.layers if layer.where == "engine")
        return ideal / cycles if cycles else 0.0

    def ideal_cycles(self, layer: LayerInfo) -> float:
        """Return the cycles of an operator if the array were always fully used.

        Of several number formats (modes), the fastest counts. Operators without products have no
        mode and count as ``i8xi8``.
        """
        modes = [mode for mode in layer.mode.split(", ") if mode in MODES] or ["i8xi8"]
        return self.macs_of(layer) / max(self.config.macs_per_cycle(mode) for mode in modes)

    def macs_of(self, layer: LayerInfo) -> int:
        """Return the number of multiply-accumulates in an operator's instructions.

        These include the ones of operators fused with it, and are 0 for an operator that is itself
        fused.
        """
        return 0 if layer.name in self.fused else layer.macs + self._fused_macs[layer.name]

    @cached_property
    def _fused_macs(self) -> Counter[str]:
        """Multiply-accumulates that an operator computes for others, by its name."""
        found = Counter[str]()
        for layer in self.layers:
            if layer.name in self.fused:
                found[self.fused[layer.name]] += layer.macs
        return found

    @cached_property
    def fused(self) -> dict[str, str]:
        """Names of fused operators, each mapped to the operator whose instructions compute it.

        That operator is the next one on the engine that has a mode although it multiplies nothing
        itself, an ADD.
        """
        found: dict[str, str] = {}
        waiting: list[str] = []
        for layer in self.layers:
            if layer.is_fused:
                waiting.append(layer.name)
            elif layer.where == "engine" and layer.mode and not layer.macs:
                found |= dict.fromkeys(waiting, layer.name)
                waiting = []
        return found

    @property
    def predicted_cycles(self) -> int:
        """Predicted cycles of all engine steps together."""
        return sum(step.predicted_cycles for step in self.steps if isinstance(step, EngineStep))

    @property
    def repeat(self) -> Repeat | None:
        """Commands for later calls, for which weights are still on chip; None if there are none."""
        found = [step.repeat for step in self.steps if isinstance(step, EngineStep)]
        return found[0] if found else None

    def commands(self, buffer: EngineStep | Repeat) -> bytes:
        """Return the bytes of a command buffer in the image."""
        return self.image[buffer.command_offset :][: buffer.command_bytes]

    def require(self, config: Config) -> None:
        """Raise `ProgramError` unless the program was compiled for this configuration."""
        if config.digest != self.config.digest:
            raise ProgramError(
                f"the program is for configuration {describe_config(self.config)}, "
                f"but the device, or --config, has {describe_config(config)}",
                hint="compile the network for that configuration, or leave --config out",
            )
