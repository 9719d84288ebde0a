"""Rules for the preprocessing in a Program; `matloom.pre` defines what it computes."""

from matloom.program.contents import Contents
from matloom.program.errors import ProgramError


def check_preprocessing(program: Contents) -> None:
    """Raise `ProgramError` unless each preprocessing belongs to an input of its own."""
    inputs = [info.key for info in program.inputs]
    for item in program.preprocessing:
        if item.tensor not in inputs:
            raise ProgramError(
                f"each preprocessing must have a different input, not {item.tensor!r}"
            )
        inputs.remove(item.tensor)
