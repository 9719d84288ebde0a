"""The text that a mutant replaces exists: a rename fails here, before minutes of proofs."""

import runpy
from pathlib import Path

import pytest

HERE = Path(__file__)
FILES = [file for file in HERE.parent.rglob("test_*.py") if "\nMUTANTS = {" in file.read_text()]
MUTANTS = {
    f"{file.stem[5:]}: {name}": mutant[:2]
    for file in sorted(FILES)
    if file != HERE
    for name, mutant in runpy.run_path(file)["MUTANTS"].items()
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_can_be_made(mutated, name):
    component, change = MUTANTS[name]
    assert mutated(component, change) is not component
