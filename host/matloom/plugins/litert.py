"""Bundles for LiteRT: a program, and the parts of a TensorFlow Lite file that its steps are."""

from pathlib import Path

from matloom.errors import UserError
from matloom.frontend.loaded import loaded_by_litert
from matloom.plugins.bundle import Runtime, bundle
from matloom.plugins.parts import EnginePart, Wiring, parts_of
from matloom.program import Program

__all__ = ["litert_bundle"]


def litert_bundle(network: Path, program: Program) -> tuple[bytes, list[str]]:
    """Return the bundle of a TensorFlow Lite file and its program, and what to say of its parts.

    Errors
    ------
    UserError
        The file is none of TensorFlow Lite, keeps variables, or has no part for the engine.
    """
    file = loaded_by_litert(network)
    if program.origin is None:
        raise UserError("a bundle must be made of a network, not of a program that was read")
    if program.variables:
        raise UserError(f"{network} keeps variables between calls, which a delegate does not")
    count = len(file.tensors)
    wiring = Wiring(
        operators=file.operators,
        constants=frozenset(number for number in range(count) if file.constant(number)),
        outputs=file.outputs,
        numbers={key: at for key, at in program.origin.numbers.items() if at < count},
    )
    found = list(parts_of(program, wiring))
    parts = [part for part in found if isinstance(part, EnginePart)]
    said = [f"left to the runtime: {each}" for each in found if isinstance(each, str)]
    if not parts:
        raise UserError(
            f"{network} has no part for the engine" + "".join(f"; {each}" for each in said),
            hint=f"matloom explain {network} says why",
        )
    taken = sum(len(part.nodes) for part in parts)
    said.append(f"{taken} of {len(file.operators)} operators run on the engine")
    checked = [(part, file.checksum(part.nodes)) for part in parts]
    return bundle(program, Runtime.LITERT, len(file.operators), checked), said
