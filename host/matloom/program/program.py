"""Programs: the result of compiling a network, or of reading a program file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from matloom.arch.config_name import describe_config
from matloom.arch.program_file import FILE_LIMIT, LOOP
from matloom.ir.graph import Graph
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.host_steps import programs_of
from matloom.program.loops import check_programs
from matloom.program.read import read
from matloom.program.records import HostStep
from matloom.program.validate import validate
from matloom.program.write import write


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """Network from which a program was compiled; files do not contain it.

    Members
    -------
    source:
        The original network.
    graph:
        The network that the program computes, with layers in the number formats of the precision.
    prepared:
        The network after all passes, whose tensors the steps read and write.
    numbers:
        Tensor numbers by key in the program; they are the same in every graph with the tensor.
    with_outputs:
        Function that compiles the network again, with the given tensor numbers of `source` as
        additional outputs.
    loops:
        Programs of loops, each with its own origin, by the index of the step.
    tuned:
        Sentence on the choices from `matloom tune`; empty if the program does not use any.
    """

    source: Graph
    graph: Graph
    prepared: Graph
    numbers: Mapping[str, int]
    with_outputs: Callable[[Sequence[int]], "Program"]
    loops: "Mapping[int, tuple[Program, ...]]"
    tuned: str = ""


@dataclass(frozen=True, kw_only=True)
class Program(Contents):
    """Instructions, constants, buffers and host steps of a network for one configuration.

    Members
    -------
    origin:
        Network from which the program was compiled; None if it was read from a file.
    """

    origin: Origin | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        """Return the network, the configuration, and the interface, without the contents."""
        inputs, outputs = (
            ", ".join(f"{info.name!r} {info.dtype} {info.shape}" for info in side) or "nothing"
            for side in (self.inputs, self.outputs)
        )
        place = describe_config(self.config)
        return f"<{type(self).__name__} {self.name!r} for {place}: {inputs} to {outputs}>"

    @cached_property
    def loops(self) -> "Mapping[int, tuple[Program, ...]]":
        """Programs of each loop, by the index of its step: the body, then the condition if any.

        Raises
        ------
        ProgramError
            A program is damaged or breaks a rule.
        """
        if self.origin is not None:
            return self.origin.loops
        constants = {item.name: item for item in self.constants}
        found = {}
        for number, step in enumerate(self.steps):
            if isinstance(step, HostStep) and step.operator == LOOP:
                items = [constants[name] for name in programs_of(step)]
                found[number] = tuple(
                    Program.from_bytes(self.host_data[item.offset :][: item.shape[0]])
                    for item in items
                )
                check_programs(step, found[number], self)
        return found

    @property
    def memory_bytes(self) -> int:
        """Number of bytes of external memory for the program, or for the largest of its loops."""
        inside = [each.memory_bytes for programs in self.loops.values() for each in programs]
        return max(sum(self.region_bytes.values()), *inside, 0)

    def to_bytes(self) -> bytes:
        """Return the contents of a program file; equal programs give equal bytes.

        Raises
        ------
        ProgramError
            The program is inconsistent, or has a value that the file format cannot represent.
        """
        validate(self)
        return write(self)

    def save(self, path: str | Path) -> None:
        """Write a program file; raises the errors of `to_bytes`."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Read a program file; raise `ProgramError` if it is damaged or breaks a rule."""
        path = Path(path)
        if not path.is_file():
            problem = "it is a folder" if path.is_dir() else "no such file"
            raise ProgramError(
                f"cannot read {path}: {problem}", hint="matloom compile NET -o NET.mloom writes one"
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
        """Read the bytes of a program file; raise `ProgramError` if they break a rule.

        Memory use is bounded by the size of the file. Instructions are checked by `verify_program`.
        """
        program = read(data, cls)
        validate(program)
        return program
