"""Program: one file with everything that a device and its host need to run a network."""

import dataclasses
import json
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.arch.isa import Region

__all__ = [
    "FORMAT_VERSION",
    "Binding",
    "Constant",
    "EngineStep",
    "HostStep",
    "LayerInfo",
    "Program",
    "ProgramError",
    "Quantised",
    "Repeat",
    "TensorInfo",
    "Verdict",
]

#: Changes with every change of the file's layout.
FORMAT_VERSION = 4

_MAGIC = b"MLOOMPRG"
#: Magic, format version, bytes of metadata, of the image and of host data, CRC-32 of all three.
_HEADER = struct.Struct("<8sIIIII")


class ProgramError(ValueError):
    """A Program that cannot be used; the message names thing, rule and value."""


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
        The tensor's name; for inputs and outputs of the network the model file's.
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
    """A tensor of the host: inputs and outputs of the network, and what host steps pass on."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantised: Quantised | None = None


@dataclass(frozen=True, kw_only=True)
class Constant:
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

    `inputs` and `outputs` are names of tensors, or of constants; `attributes` is what the
    operator's kernel needs, as JSON; `reason` says why the engine does not run it.
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

    `mark` is its slot in the completion-time table, 0 for none; `where` is ``"engine"``,
    ``"host"`` or ``"none"`` for operators that cost nothing; `reason` says why not the engine;
    `tensor_bytes` are those of all that it reads and writes. `repeat_cycles` is the
    prediction for later calls, where weights stay on chip. `mode` is the number format of its
    products on the engine, empty where it has none.
    """

    name: str
    operator: str
    where: str
    mark: int = 0
    macs: int = 0
    predicted_cycles: int = 0
    reason: str = ""
    tensor_bytes: int = 0
    repeat_cycles: int = 0
    mode: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was checked when a program was compiled; one that fails is never returned.

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


@dataclass(frozen=True, kw_only=True)
class Program:
    """Instructions, constants, buffers and host steps of a network for one configuration.

    Members
    -------
    name:
        Of the network.
    config:
        The configuration it was compiled for.
    image:
        Contents of region PROGRAM: constants and commands.
    region_bytes:
        Size that each region needs.
    inputs, outputs:
        The network's, in the model file's order.
    tensors:
        Every tensor that steps name.
    steps:
        Engine and host steps in order of execution.
    layers:
        For reports.
    constants, host_data:
        What host steps read, and the bytes of it; the device has no copy.
    verdict:
        Of the checks at compile time; None where there were none.
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
    constants: tuple[Constant, ...] = ()
    host_data: bytes = b""
    verdict: Verdict | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the network's operators, as the model file states them."""
        return sum(layer.macs for layer in self.layers)

    @property
    def engine_macs(self) -> int:
        """Those of the operators that run on the engine."""
        return sum(layer.macs for layer in self.layers if layer.where == "engine")

    def utilisation(self, cycles: int) -> float:
        """Return the share of cycles in which the array, each layer in its mode, were full."""
        ideal = sum(
            layer.macs / self.config.products_a_cycle(layer.mode)
            for layer in self.layers
            if layer.where == "engine"
        )
        return ideal / cycles if cycles else 0.0

    @property
    def predicted_cycles(self) -> int:
        """Estimated cycles of all engine steps."""
        return sum(step.predicted_cycles for step in self.steps if isinstance(step, EngineStep))

    @property
    def repeat(self) -> Repeat | None:
        """The shorter way of the only engine step from the second call on, where it has one."""
        found = [step.repeat for step in self.steps if isinstance(step, EngineStep)]
        return found[0] if found else None

    def commands(self, buffer: EngineStep | Repeat) -> bytes:
        """Return a command buffer of the image."""
        return self.image[buffer.command_offset :][: buffer.command_bytes]

    def require(self, config: Config) -> None:
        """Raise `ProgramError` unless the program was made for this configuration."""
        if config.digest != self.config.digest:
            raise ProgramError(
                f"a program must be made for the device's configuration {config.digest:08x}, "
                f"not {self.config.digest:08x}"
            )

    def to_bytes(self) -> bytes:
        """Return the file's contents."""
        metadata = json.dumps(_metadata(self), separators=(",", ":")).encode()
        body = metadata + self.image + self.host_data
        head = (_MAGIC, FORMAT_VERSION, len(metadata), len(self.image), len(self.host_data))
        return _HEADER.pack(*head, zlib.crc32(body)) + body

    def save(self, path: str | Path) -> None:
        """Write the file."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Read a file; raise `ProgramError` where it is none, or damaged."""
        path = Path(path)
        if not path.is_file():
            raise ProgramError(f"a program must be a file, not {str(path)!r}")
        return cls.from_bytes(path.read_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Program":
        """Read a file's contents; raise `ProgramError` where they are none, or damaged."""
        if len(data) < _HEADER.size:
            raise ProgramError(f"a program must have {_HEADER.size} bytes or more, not {len(data)}")
        magic, version, *sizes, checksum = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ProgramError(f"a program must begin with {_MAGIC!r}, not {magic!r}")
        if version != FORMAT_VERSION:
            raise ProgramError(f"a program's format must be {FORMAT_VERSION}, not {version}")
        body = data[_HEADER.size :]
        if len(body) != sum(sizes):
            raise ProgramError(
                f"a program must have {sum(sizes)} bytes behind its header, not {len(body)}"
            )
        if zlib.crc32(body) != checksum:
            raise ProgramError(
                f"a program's checksum must be {checksum:08x}, not {zlib.crc32(body):08x}"
            )
        try:
            image = sizes[0] + sizes[1]
            metadata = json.loads(body[: sizes[0]])
            return _from_metadata(metadata, body[sizes[0] : image], body[image:])
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ProgramError(f"a program's metadata must be whole: {error}") from None


def _metadata(program: Program) -> dict[str, Any]:
    apart = ("config", "host_data", "image", "region_bytes")
    values = dataclasses.asdict(program)
    named = {name: value for name, value in values.items() if name not in apart}
    regions = {region.name: size for region, size in program.region_bytes.items()}
    return {**named, "config": program.config.as_dict(), "region_bytes": regions}


def _tensor(values: dict[str, Any]) -> TensorInfo:
    quantised = values["quantised"]
    return TensorInfo(
        **{
            **values,
            "shape": tuple(values["shape"]),
            "quantised": None if quantised is None else Quantised(**quantised),
        }
    )


def _binding(values: dict[str, Any]) -> Binding:
    return Binding(
        **{**values, "shape": tuple(values["shape"]), "region": Region(values["region"])}
    )


def _constant(values: dict[str, Any]) -> Constant:
    sequences = ("shape", "scales", "zero_points")
    return Constant(**{**values, **{name: tuple(values[name]) for name in sequences}})


def _step(values: dict[str, Any]) -> EngineStep | HostStep:
    if values["kind"] == "host":
        return HostStep(
            **{
                **values,
                "inputs": tuple(values["inputs"]),
                "outputs": tuple(values["outputs"]),
            }
        )
    return EngineStep(
        **{
            **values,
            "inputs": tuple(_binding(item) for item in values["inputs"]),
            "outputs": tuple(_binding(item) for item in values["outputs"]),
            "repeat": None if values["repeat"] is None else _repeat(values["repeat"]),
        }
    )


def _repeat(values: dict[str, Any]) -> Repeat:
    kept = tuple((int(start), int(end)) for start, end in values["kept"])
    return Repeat(**{**values, "kept": kept})


def _verdict(values: dict[str, Any]) -> Verdict:
    return Verdict(**{**values, "stages": tuple(values["stages"])})


def _from_metadata(values: dict[str, Any], image: bytes, host_data: bytes) -> Program:
    return Program(
        name=values["name"],
        config=Config.from_json(json.dumps(values["config"])),
        image=image,
        region_bytes={Region[name]: size for name, size in values["region_bytes"].items()},
        inputs=tuple(_tensor(item) for item in values["inputs"]),
        outputs=tuple(_tensor(item) for item in values["outputs"]),
        tensors=tuple(_tensor(item) for item in values["tensors"]),
        steps=tuple(_step(item) for item in values["steps"]),
        layers=tuple(LayerInfo(**item) for item in values["layers"]),
        constants=tuple(_constant(item) for item in values["constants"]),
        host_data=host_data,
        verdict=None if values["verdict"] is None else _verdict(values["verdict"]),
    )
