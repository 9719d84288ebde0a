"""Reads the declarations of networks for the compatibility layers, and opens sessions on them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matloom import frontend
from matloom.frontend.declaration import Declaration, DeclaredTensor, ModelInfo
from matloom.frontend.readers import Source
from matloom.frontend.source import bytes_of, is_program
from matloom.program import Program, TensorInfo
from matloom.runtime import load
from matloom.session import Session

#: Environment variables that replace the defaults of some keywords of `load`, by keyword.
_ENVIRONMENT = {"device": "MATLOOM_DEVICE", "config": "MATLOOM_CONFIG"}

Shape = tuple[int, ...]


class Network:
    """A network, and the keywords of `matloom.load` for opening sessions on it.

    Parameters
    ----------
    source:
        Anything that `matloom.load` accepts.
    options:
        Keywords of `matloom.load`. The defaults of `device` and `config` are the environment
        variables MATLOOM_DEVICE and MATLOOM_CONFIG, then those of `load`.

    Raises
    ------
    ModelError, ProgramError
        The file cannot be read.
    """

    def __init__(self, source: Source, options: Mapping[str, Any]) -> None:
        chosen = {name: os.environ.get(key) for name, key in _ENVIRONMENT.items()}
        self.options = {name: value for name, value in chosen.items() if value} | dict(options)
        source = bytes_of(source)
        self.source: Source | Program = source
        if isinstance(source, str | Path | bytes) and is_program(source):
            if isinstance(source, bytes):
                program = Program.from_bytes(source)
            else:
                program = Program.load(source)
            self.source = program
            self.declaration = _declare_program(program)
        else:
            self.declaration = frontend.declaration(source)

    def sizes(self, tensor: DeclaredTensor) -> Shape | None:
        """Return the shape of an input from the options or the file; None if a size is unknown."""
        given: Mapping[str, Any] = self.options.get("shapes") or {}
        if tensor.key in given:
            return tuple(given[tensor.key])
        dims: Mapping[str, int] = self.options.get("dims") or {}
        found = [dims.get(size, size) if isinstance(size, str) else size for size in tensor.shape]
        known = tuple(size for size in found if isinstance(size, int))
        return known if len(known) == len(found) else None

    def session(self, shapes: Mapping[str, Shape]) -> Session:
        """Compile the network for the given input shapes, by name; return a session on it."""
        options = dict(self.options)
        if shapes:
            options["shapes"] = {**(options.get("shapes") or {}), **shapes}
        return load(self.source, **options)


def _declare_program(program: Program) -> Declaration:
    """Return the declarations of a compiled program, whose only tensors are inputs and outputs."""
    ends = tuple(
        _declare(info, number) for number, info in enumerate((*program.inputs, *program.outputs))
    )
    count = len(program.inputs)
    return Declaration(
        inputs=ends[:count],
        outputs=ends[count:],
        tensors=ends,
        info=ModelInfo(graph=program.name),
    )


def _declare(info: TensorInfo, number: int) -> DeclaredTensor:
    """Return the declaration of a compiled program's input or output, with the given number."""
    quantised = info.quantised
    return DeclaredTensor(
        name=info.name,
        key=info.name,
        number=number,
        shape=info.shape,
        placeholder=info.shape,
        dtype=info.dtype,
        scales=() if quantised is None else (quantised.scale,),
        zero_points=() if quantised is None else (quantised.zero_point,),
    )
