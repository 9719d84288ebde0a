"""Parts of a program: tensors, bindings, constants, steps, layers, variables, verdict."""

from dataclasses import dataclass, field
from typing import Any

from matloom.arch.isa import Region


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
        Key of the tensor.
    region, offset:
        Region and offset of its dense bytes.
    shape, dtype:
        Shape and dtype in NumPy's terms.
    """

    name: str
    region: Region
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor on the host: inputs and outputs of the network, and tensors between host steps.

    Members
    -------
    name:
        User-visible name. Inputs and outputs have names from the model file, unique among inputs
        and among outputs.
    unique:
        The program's internal name, if another tensor has the same `name`; else empty.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantised: Quantised | None = None
    unique: str = ""

    @property
    def key(self) -> str:
        """Unique name by which steps, bindings and variables refer to it."""
        return self.unique or self.name


@dataclass(frozen=True, kw_only=True)
class PreprocessInfo:
    """Preprocessing in front of an input: its tensor's key, and a text of `matloom.pre.dumps`."""

    tensor: str
    definition: str


@dataclass(frozen=True, kw_only=True)
class HostConstant:
    """A constant that host steps read.

    Members
    -------
    offset:
        Offset of its dense bytes in the program's host data.
    scales, zero_points, axis:
        Quantisation by channel along `axis`; empty if integers represent themselves, and one of
        each with `axis` None if it applies to all.
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
    """Commands to repeat a step whose weights are still in the scratchpad.

    They may run if nothing else has run since the step, and there was no reset or fault. `kept` are
    the ranges of the scratchpad (half open) that they rely on.
    """

    command_offset: int
    command_bytes: int
    predicted_cycles: int
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """Engine step: write `inputs`, run commands, read `outputs`.

    Tensors in region ARENA are variables: they are already there, and stay there.

    `command_offset` and `command_bytes` locate the commands in the program image;
    `predicted_cycles` is the compiler's estimate from doorbell to done. `repeat` are shorter
    commands for later calls, if weights stay on chip.
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
    """Host step: run one operator on the host.

    `inputs` and `outputs` are keys of tensors or names of constants; `attributes` are parameters of
    the kernel by name; `reason` says why the engine does not run it.
    """

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    kind: str = "host"


@dataclass(frozen=True, kw_only=True)
class LayerInfo:
    """An operator of the network, and how it runs.

    `timestamp` is its slot in the completion-time table, 0 for none; `where` is ``"engine"``,
    ``"host"`` or, for operators that cost nothing, ``"none"``; `reason` says why the engine does
    not run it, or how exact results on the engine are; `tensor_bytes` is the size of all tensors
    that it reads and writes. `repeat_cycles` is the prediction for later calls, if weights stay on
    chip. `mode` is the number format of its products on the engine, empty if there are none or if
    another operator computes them.
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

    @property
    def is_fused(self) -> bool:
        """Whether the operator that reads its result computes it, in the same instructions."""
        return self.where == "engine" and bool(self.macs) and not self.mode


@dataclass(frozen=True, kw_only=True)
class VariableInfo:
    """Variable that a network keeps from one call to the next.

    Members
    -------
    name:
        Name in the model file.
    before, after:
        Keys of the tensors that hold it at the start and the end of a call, with the same shape and
        dtype.
    initial:
        Offset of its initial value in the program's host data.
    place:
        Its place in region ARENA, as the binding of `before`; None if it stays on the host.
    """

    name: str
    before: str
    after: str
    initial: int
    place: Binding | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of the check at the end of compilation; programs that fail are never returned.

    Members
    -------
    mode:
        ``"full"``, ``"sample"`` or ``"none"``: how much was compared with the operators'
        definitions.
    seed:
        Seed of the random inputs of those runs.
    share:
        Share of the network's multiply-accumulates whose results were compared, from 0 to 1.
    calls:
        Number of runs of the program, first and repeated ones.
    tiles:
        Number of single tiles run separately, on random inputs.
    stages:
        Stages whose meaning was proved instruction by instruction, and all stages on the engine.
    fallback:
        Why a simpler schedule was used; empty if the first one passed.
    """

    mode: str
    seed: int = 0
    share: float = 0.0
    calls: int = 0
    stages: tuple[int, int] = (0, 0)
    fallback: str = ""
    tiles: int = 0
