"""Makes the bundle (`plugins.bundle`) with which another runtime runs a network on the engine."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from matloom.errors import UserError
from matloom.frontend.loaded import LoadedNodes, load_as_litert, load_as_onnxruntime
from matloom.plugins.bundle import Runtime, bundle
from matloom.plugins.parts import EnginePart, ModelValue, Wiring, parts_of
from matloom.program import Program
from matloom.program.program import Origin


def network_bundle(runtime: str, network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return a network's bundle for ``"litert"`` or ``"onnxruntime"``, and lines about its parts.

    Also returns lines for the user: why some steps stay with the runtime, and the number of
    operators that run on the engine.

    Raises
    ------
    UserError
        The model file has another runtime's format, keeps variables, or has no part for the
        engine; or the program was read from a file.
    """
    made = litert_bundle if runtime == "litert" else onnxruntime_bundle
    return made(network, program)


def litert_bundle(network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of a TensorFlow Lite file, and lines that describe its parts."""
    file = load_as_litert(network)
    count = len(file.tensors)
    wiring = Wiring(
        operators=file.operators,
        constants=frozenset(number for number in range(count) if file.constant(number)),
        outputs=file.outputs,
        values={
            key: ModelValue(number=at) for key, at in _origin(program).numbers.items() if at < count
        },
    )
    parts, description = _engine_parts(network, program, wiring, file.checksum)
    _require_parts(network, parts, description)
    return bundle(program, Runtime.LITERT, len(file.operators), parts), description


def onnxruntime_bundle(network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of an ONNX file, and lines that describe its parts."""
    usual, *others = load_as_onnxruntime(network)
    parts, description = _named_parts(network, program, usual)
    for file in others:
        parts += [each for each in _named_parts(network, program, file)[0] if each not in parts]
    _require_parts(network, parts, description)
    # The graph may hold several versions of a step's part; the model contains one of them.
    parts.sort(key=lambda each: each[0].step)
    count = len(usual.operators)
    return bundle(program, Runtime.ONNXRUNTIME, count, parts, list(usual.places)), description


def _named_parts(
    network: Path, program: Program, file: LoadedNodes
) -> tuple[list[tuple[EnginePart, int]], list[str]]:
    """Return the parts of an ONNX graph that run on the engine, and lines that describe them.

    Each part is paired with its checksum. `EnginePart.nodes` has the tensor number of each
    operator's first output.
    """
    origin = _origin(program)
    values = {name: ModelValue(number=place) for name, place in file.places.items()}
    for key, number in origin.numbers.items():
        copy = origin.source.copies.get(number)
        if copy is not None and copy.name in file.places:
            values[key] = ModelValue(
                number=file.places[copy.name], axes=copy.axes, offset=copy.offset
            )
    wiring = Wiring(
        operators=file.operators, constants=file.constants, outputs=file.outputs, values=values
    )
    parts, description = _engine_parts(network, program, wiring, file.checksum)
    made = [operator.outputs[0] for operator in file.operators]
    return [
        (part.with_nodes([made[at] for at in part.nodes]), sum_) for part, sum_ in parts
    ], description


def _origin(program: Program) -> Origin:
    """Return the network file that a program was compiled from, or raise `UserError`."""
    if program.origin is None:
        raise UserError(
            "a bundle must be made from a network, not from a program file",
            hint="give the .tflite or .onnx file",
        )
    return program.origin


def _engine_parts(
    network: Path, program: Program, wiring: Wiring, checksum: Callable[[Iterable[int]], int]
) -> tuple[list[tuple[EnginePart, int]], list[str]]:
    """Return the parts of a network that run on the engine, and lines that describe them.

    Each part is paired with its checksum, which `checksum` computes from its operators' numbers.
    """
    if program.variables:
        raise UserError(
            f"{network} keeps variables between calls, which a plug-in does not",
            hint="matloom run and matloom firmware run it",
        )
    found = list(parts_of(program, wiring))
    parts = [part for part in found if isinstance(part, EnginePart)]
    description = [f"left to the runtime: {each}" for each in found if isinstance(each, str)]
    taken = sum(len(part.nodes) for part in parts)
    description.append(f"{taken} of {len(wiring.operators)} operators run on the engine")
    return [(part, checksum(part.nodes)) for part in parts], description


def _require_parts(
    network: Path, parts: Sequence[tuple[EnginePart, int]], description: Sequence[str]
) -> None:
    """Raise `UserError` if no part of a network runs on the engine.

    All lines of `description` but the last are quoted as reasons.
    """
    if not parts:
        raise UserError(
            f"no part of {network} can run on the engine"
            + "".join(f"; {each}" for each in description[:-1]),
            hint=f"matloom explain {network} says why",
        )
