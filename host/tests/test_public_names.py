"""The public API as type checkers see it: every name, with the types of its module."""

import ast
import subprocess
import sys
from pathlib import Path

import matloom

USER = """
import numpy as np
import matloom
from matloom import ops

program: matloom.Program = matloom.compile("net.tflite", config="nano")
config: matloom.Config = program.config
with matloom.load(program, device="rtl") as session:
    cycles: int = session.report().cycles
product: np.ndarray = ops.matmul([[1]], [[2]])
"""


def test_each_public_name_is_imported_for_type_checkers():
    tree = ast.parse(Path(matloom.__file__).read_text())
    (guarded,) = (item for item in tree.body if isinstance(item, ast.If))
    homes = {}
    for item in guarded.body:
        assert isinstance(item, ast.ImportFrom)
        for alias in item.names:
            # Type checkers export `import f as f`, but treat `import f` as private.
            assert alias.name == alias.asname
            homes[alias.name] = item.module
    modules = dict.fromkeys(matloom._MODULES, "matloom")
    assert homes == {**matloom._HOMES, **modules}


def checked(text, folder):
    """Return what mypy says of a program that uses the package."""
    program = folder / "user.py"
    program.write_text(text)
    (folder / "mypy.ini").write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", program.name]
    path = str(Path(matloom.__file__).parents[1])
    done = subprocess.run(
        command, cwd=folder, env={"MYPYPATH": path}, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_a_strict_type_checker_knows_the_types(tmp_path):
    assert "Success" in checked(USER, tmp_path)
    assert "has no attribute" in checked(
        USER.replace("report().cycles", "report().turns"), tmp_path
    )
    assert "Incompatible types" in checked(USER.replace("cycles: int", "cycles: str"), tmp_path)
