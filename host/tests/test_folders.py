"""Package, network, program and outputs in folders and files with any name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom import frontend
from support.folders import FOLDERS

DIGITS = Path(matloom.__file__).parent / "data" / "digits.tflite"
#: What is no file's name, but several folders'.
NAMES = [name for name in FOLDERS if "/" not in FOLDERS[name]]


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_named_by_unicode(name, tmp_path):
    """Programs store a network's name as text, whatever bytes the file's name has."""
    path = tmp_path / f"net {FOLDERS[name]}.tflite"
    shutil.copy(DIGITS, path)
    graph = frontend.load(path)
    assert graph.name.encode().decode() == graph.name
    assert graph.name.startswith("net ")


def _package(folder: Path) -> None:
    """Copy the package into a folder."""
    source = Path(matloom.__file__).parent
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folder / "matloom", ignore=unwanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_all_folders_have_unusual_names(name, tmp_path):
    """A startup module adds the package to the path, since PYTHONPATH splits at colons."""
    folder = tmp_path / FOLDERS[name]
    folder.mkdir(parents=True)
    _package(folder / "package")
    first = tmp_path / "first"
    first.mkdir()
    place = str(folder / "package")
    (first / "sitecustomize.py").write_text(f"import sys\nsys.path.insert(0, {place!r})\n")
    file = FOLDERS[name].rpartition("/")[2][:200]
    shutil.copy(DIGITS, folder / f"net {file}.tflite")

    def run(*words: str) -> str:
        code = "import matloom.cli; print(matloom.__file__.encode('utf-8', 'replace')); "
        command = [sys.executable, "-c", f"{code}matloom.cli.main()", *words]
        environment = {**os.environ, "PYTHONPATH": str(first)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert b"/package/matloom/" in done.stdout
        return done.stdout.decode(errors="replace")

    program, made = f"net {file}.mloom", f"out {file}.npz"
    assert "cycles" in run("compile", f"net {file}.tflite", "--config", "nano", "-o", program)
    run("run", program, "--input", "random", "--device", "model", "--output", made)
    with np.load(folder / made) as arrays:
        assert [array.shape for array in arrays.values()] == [(1, 10)]
    run("firmware", f"net {file}.tflite", "--config", "nano", "-o", f"firmware {file}")
    assert (folder / f"firmware {file}").is_dir()
