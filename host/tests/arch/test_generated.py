"""Generated files are up to date, and the header is valid C."""

import shutil
import subprocess

import pytest

from matloom.arch.generate.files import FILES, ROOT


@pytest.mark.parametrize("name", FILES)
def test_fresh(name):
    assert (ROOT / name).read_text() == FILES[name](), "run python -m matloom.arch.generate"


@pytest.mark.parametrize("name", ["matloom_regs.h", "matloom_soc.h"])
def test_header_compiles(name):
    compiler = shutil.which("gcc") or shutil.which("g++")
    header = ROOT / "firmware" / "include" / name
    command = [compiler, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run([*command, header], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
