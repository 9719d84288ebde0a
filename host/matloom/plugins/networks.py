"""Bundles of networks: a program, and the parts of a model file that its steps are."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from matloom.errors import UserError
from matloom.frontend.loaded import loaded_by_litert, loaded_by_onnxruntime
from matloom.plugins.bundle import Runtime, bundle
from matloom.plugins.parts import EnginePart, Wiring, parts_of
from matloom.program import Program

__all__ = ["litert_bundle", "network_bundle", "onnxruntime_bundle"]


def network_bundle(runtime: str, network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of a network for a runtime, `litert` or `onnxruntime`.

    Also returns what to say of its parts, line by line.

    Raises
    ------
    UserError
        The file is none of the runtime's, keeps variables, or has no part for the engine.
    """
    made = litert_bundle if runtime == "litert" else onnxruntime_bundle
    return made(network, program)


def litert_bundle(network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of a TensorFlow Lite file, as `network_bundle` does."""
    file = loaded_by_litert(network)
    count = len(file.tensors)
    wiring = Wiring(
        operators=file.operators,
        constants=frozenset(number for number in range(count) if file.constant(number)),
        outputs=file.outputs,
        numbers={key: at for key, at in _numbers(program).items() if at < count},
    )
    parts, said = _parts(network, program, wiring, file.checksum)
    return bundle(program, Runtime.LITERT, len(file.operators), parts), said


def onnxruntime_bundle(network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of an ONNX file, as `network_bundle` does."""
    file = loaded_by_onnxruntime(network)
    wiring = Wiring(
        operators=file.operators,
        constants=file.constants,
        outputs=file.outputs,
        numbers={name: place for place, name in enumerate(file.names)},
    )
    parts, said = _parts(network, program, wiring, file.checksum)
    made = [operator.outputs[0] for operator in file.operators]
    named = [(part.with_nodes([made[at] for at in part.nodes]), sum_) for part, sum_ in parts]
    count = len(file.operators)
    return bundle(program, Runtime.ONNXRUNTIME, count, named, file.names), said


def _numbers(program: Program) -> Mapping[str, int]:
    """Return the numbers of tensors in the model file, by their names in the program."""
    if program.origin is None:
        raise UserError("a bundle must be made of a network, not of a program that was read")
    return program.origin.numbers


def _parts(
    network: Path, program: Program, wiring: Wiring, checksum: Callable[[Iterable[int]], int]
) -> tuple[list[tuple[EnginePart, int]], list[str]]:
    """Return the parts of a network with their checksums, and what to say of them."""
    if program.variables:
        raise UserError(f"{network} keeps variables between calls, which a plug-in does not")
    found = list(parts_of(program, wiring))
    parts = [part for part in found if isinstance(part, EnginePart)]
    said = [f"left to the runtime: {each}" for each in found if isinstance(each, str)]
    if not parts:
        raise UserError(
            f"{network} has no part for the engine" + "".join(f"; {each}" for each in said),
            hint=f"matloom explain {network} says why",
        )
    taken = sum(len(part.nodes) for part in parts)
    said.append(f"{taken} of {len(wiring.operators)} operators run on the engine")
    return [(part, checksum(part.nodes)) for part in parts], said
