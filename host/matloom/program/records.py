"""Records of which a program consists: tensors, bindings, constants, steps, layers, variables."""

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
    """Place of an input or output of an engine step in a region of external memory.

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
    """Tensor of a program: an input or output of the network, or of a step.

    Members
    -------
    name:
        User-visible name. For inputs and outputs, it is from the model file, and is unique among
        inputs and among outputs.
    unique:
        Internal name in the program, if another tensor has the same `name`; else empty.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantised: Quantised | None = None
    unique: str = ""

    @property
    def key(self) -> str:
        """Unique name by which steps, bindings and variables refer to the tensor."""
        return self.unique or self.name


@dataclass(frozen=True, kw_only=True)
class PreprocessInfo:
    """Preprocessing of an input: the key of its tensor, and a text of `matloom.pre.dumps`."""

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
        Quantisation per channel along `axis`. There are no scales and zero points if integers
        represent themselves, and one of each, with `axis` None, if they apply to all channels.
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
    """Commands to run a step again while its weights are still in the scratchpad.

    They may run if nothing else has run since the step, and if there was no reset or fault. `kept`
    are the byte ranges of the scratchpad, with exclusive ends, on which they rely.
    """

    command_offset: int
    command_bytes: int
    predicted_cycles: int
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """Step on the engine: write `inputs`, run commands, read `outputs`.

    `command_offset` and `command_bytes` locate the commands in the program's image.
    `predicted_cycles` is the compiler's estimate from doorbell to done. `repeat` has shorter
    commands for later calls, if weights stay on chip. Tensors in region ARENA are variables, which
    are neither written nor read by the host.
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
    """Step on the host, which runs one operator.

    `inputs` and `outputs` are keys of tensors or names of constants; `attributes` are parameters of
    the kernel by name; `reason` says why the engine does not run the operator.
    """

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    kind: str = "host"


@dataclass(frozen=True, kw_only=True)
class LayerInfo:
    """Report on an operator of the network, and on how it runs.

    `timestamp` is its slot in the completion-time table, 0 for none. `where` is ``"engine"``,
    ``"host"`` or, for operators that cost nothing, ``"none"``. `reason` says why the engine does
    not run it, or how exact results on the engine are. `tensor_bytes` is the size of all tensors
    that it reads and writes. `repeat_cycles` is the prediction for later calls, if weights stay on
    chip. `mode` names the number formats of its products on the engine; it is empty if there are
    none, or if another operator computes them.
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
        """Whether the operator that reads the result computes this one in its own instructions."""
        return self.where == "engine" and bool(self.macs) and not self.mode


@dataclass(frozen=True, kw_only=True)
class VariableInfo:
    """Variable whose value a network keeps from one call to the next.

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
        Place in region ARENA, as the binding of `before`; None if the host keeps the variable.
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
        How much was compared with the operators' definitions: ``"full"``, ``"sample"`` or
        ``"none"``.
    seed:
        Seed of the random inputs of these comparisons.
    share:
        Fraction, 0 to 1, of the network's multiply-accumulates whose results were compared.
    calls:
        Number of runs of the program, including repeated calls.
    tiles:
        Number of single tiles run separately, on random inputs.
    stages:
        Number of stages that were proved instruction by instruction, and of all engine stages.
    fallback:
        Reason for which a simpler schedule was used; empty if the first one passed.
    """

    mode: str
    seed: int = 0
    share: float = 0.0
    calls: int = 0
    stages: tuple[int, int] = (0, 0)
    fallback: str = ""
    tiles: int = 0
