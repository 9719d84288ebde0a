"""Programs: contents that are read from a file, or come from a compiled network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matloom.arch.program_file import FILE_LIMIT
from matloom.ir.graph import Graph
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.read import read
from matloom.program.validate import validate
from matloom.program.write import write

__all__ = ["Origin", "Program"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """The network of a program, known where it was compiled: no file holds it.

    Members
    -------
    source:
        The network as it was given.
    graph:
        The network that the program computes: layers in the number formats of its precision.
    prepared:
        The same after all passes, in which each step reads and makes tensors.
    numbers:
        The number of each tensor by its name in the program, the same in all graphs that have it.
    with_outputs:
        Compiles the network again, with these tensors of `source` as outputs after its own.
    """

    source: Graph
    graph: Graph
    prepared: Graph
    numbers: Mapping[str, int]
    with_outputs: Callable[[Sequence[int]], "Program"]


@dataclass(frozen=True, kw_only=True)
class Program(Contents):
    """Instructions, constants, buffers and host steps of a network for one configuration.

    Members
    -------
    origin:
        The network it was compiled from; None if it was read from a file.
    """

    origin: Origin | None = field(default=None, compare=False, repr=False)

    def to_bytes(self) -> bytes:
        """Return the file's contents; equal programs give equal bytes.

        Raises
        ------
        ProgramError
            The program contradicts itself, or has a value that no file can hold.
        """
        validate(self)
        return write(self)

    def save(self, path: str | Path) -> None:
        """Write the file."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Read a file; raise `ProgramError` where it is none, damaged, or breaks a rule."""
        path = Path(path)
        if not path.is_file():
            what = "it is a folder" if path.is_dir() else "no such file"
            raise ProgramError(
                f"cannot read {path}: {what}", hint="matloom compile NET -o NET.mloom writes one"
            )
        size = path.stat().st_size
        if size > FILE_LIMIT:
            raise ProgramError(f"a program must have at most {FILE_LIMIT} bytes, not {size}")
        try:
            return cls.from_bytes(path.read_bytes())
        except ProgramError as error:
            raise ProgramError(f"{path}: {error}", hint=error.hint) from None

    @classmethod
    def from_bytes(cls, data: bytes) -> "Program":
        """Read the bytes of a file; raise `ProgramError` where they break a rule.

        What is read is bounded by the file's size. Instructions are `verify_program`'s concern.
        """
        program = read(data, cls)
        validate(program)
        return program
