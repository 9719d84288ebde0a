"""Parts of a Program: tensors, bindings, constants, steps, layers, variables, verdict."""

from dataclasses import dataclass, field
from typing import Any

from matloom.arch.isa import Region

__all__ = [
    "Binding",
    "EngineStep",
    "HostConstant",
    "HostStep",
    "LayerInfo",
    "Quantised",
    "Repeat",
    "TensorInfo",
    "VariableInfo",
    "Verdict",
]


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """Scale and zero point of a tensor that has one of each."""

    scale: float
    zero_point: int


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A tensor in a region of external memory.

    Members
    -------
    name:
        The tensor's key.
    region, offset:
        Where its dense bytes begin.
    shape, dtype:
        As NumPy knows them.
    """

    name: str
    region: Region
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor of the host: inputs and outputs of the network, and what host steps pass on.

    Members
    -------
    name:
        The model file's for inputs and outputs, which differ on each side: what users see.
    unique:
        The program's own name, where another tensor has `name` as well; else empty.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantised: Quantised | None = None
    unique: str = ""

    @property
    def key(self) -> str:
        """The name by which steps, bindings and variables refer to it: no two are the same."""
        return self.unique or self.name


@dataclass(frozen=True, kw_only=True)
class HostConstant:
    """A constant that host steps read.

    Members
    -------
    offset:
        Of its dense bytes in the program's host data.
    scales, zero_points, axis:
        What its integers stand for, by channel along `axis`; empty where they stand for
        themselves, and one of each with `axis` None where one serves all.
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int | None = None


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Commands for a step where the scratchpad still holds what the step left there.

    They may run when nothing but the step, or they themselves, ran since the step ran; a reset
    or a fault ends that. `kept` are the bytes of the scratchpad (half open) on which they rely.
    """

    command_offset: int
    command_bytes: int
    predicted_cycles: int
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """Run commands on the engine: write `inputs`, ring, read `outputs`.

    What is bound in region ARENA is a variable: it is there already, and stays there.

    `command_offset` and `command_bytes` lie in the program image; `predicted_cycles` is the
    compiler's estimate from doorbell to done. `repeat` is the shorter way from the second
    time on, where weights stay on chip.
    """

    command_offset: int
    command_bytes: int
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    predicted_cycles: int
    repeat: Repeat | None = None
    kind: str = "engine"


@dataclass(frozen=True, kw_only=True)
class HostStep:
    """Run one operator on the host.

    `inputs` and `outputs` are keys of tensors, or names of constants; `attributes` is what the
    operator's kernel needs, by name; `reason` says why the engine does not run it.
    """

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    kind: str = "host"


@dataclass(frozen=True, kw_only=True)
class LayerInfo:
    """An operator of the network and what became of it.

    `timestamp` is its slot in the completion-time table, 0 for none; `where` is ``"engine"``,
    ``"host"`` or ``"none"`` for operators that cost nothing; `reason` says why not the engine,
    or what is known of results there;
    `tensor_bytes` are those of all that it reads and writes. `repeat_cycles` is the
    prediction for later calls, where weights stay on chip. `mode` is the number format of its
    products on the engine, empty where it has none.
    """

    name: str
    operator: str
    where: str
    timestamp: int = 0
    macs: int = 0
    predicted_cycles: int = 0
    reason: str = ""
    tensor_bytes: int = 0
    repeat_cycles: int = 0
    mode: str = ""


@dataclass(frozen=True, kw_only=True)
class VariableInfo:
    """Variable that a network keeps from one call to the next.

    Members
    -------
    name:
        The model file's.
    before, after:
        Keys of the tensors that hold it as a call begins and ends, alike in shape and dtype.
    initial:
        Offset, in the program's host data, of what it holds before the first call.
    place:
        Where in region ARENA it stays, as the binding of `before`; None where the host keeps it.
    """

    name: str
    before: str
    after: str
    initial: int
    place: Binding | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Record of the check at the end of compilation; a program that fails is never returned.

    Members
    -------
    mode:
        ``"full"``, ``"sample"`` or ``"none"``: how the program was run against the operators'
        definitions.
    seed:
        Of the inputs of those runs.
    share:
        Of the network's multiply-accumulates whose results were compared, from 0 to 1.
    calls:
        Runs of the program, first and repeated ones.
    tiles:
        Single tiles that were run apart from those, on random inputs.
    stages:
        Stages whose meaning was proven instruction by instruction, and all stages on the engine.
    fallback:
        Why a plainer schedule was taken; empty where the first one passed.
    """

    mode: str
    seed: int = 0
    share: float = 0.0
    calls: int = 0
    stages: tuple[int, int] = (0, 0)
    fallback: str = ""
    tiles: int = 0
