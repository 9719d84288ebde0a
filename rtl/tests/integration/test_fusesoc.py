"""The FuseSoC core: found by FuseSoC, linted by Verilator, run by two simulators."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from matloom.toolchain.find_verilator import find_verilator
from matloom_rtl.integration import write

pytest.importorskip("fusesoc", reason="FuseSoC is not installed: extra integration")

FUSESOC = Path(sys.executable).with_name("fusesoc")
NAME = "matloom:engine:matloom"


@pytest.fixture(scope="module")
def library(nano, tmp_path_factory):
    """Return a folder that is registered as a FuseSoC library."""
    folder = tmp_path_factory.mktemp("fusesoc")
    (folder / "chip").mkdir()
    nano.write(folder / "chip")
    write(nano, folder / "chip")
    fusesoc(folder, "library", "add", "matloom", "chip")
    return folder


def fusesoc(folder, *arguments):
    """Return FuseSoC's output."""
    environment = {**os.environ, **find_verilator().environment}
    done = subprocess.run(
        [FUSESOC, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_core_is_found_with_its_targets(nano, library):
    shown = fusesoc(library, "core", "show", NAME)
    assert nano.sidecar["config_digest"] in shown
    for target in ("default", "lint", "sim"):
        assert f"\n{target}" in shown


@pytest.mark.slow
def test_lint(library):
    assert "%Warning" not in fusesoc(library, "run", "--target", "lint", NAME)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["icarus", "verilator"])
def test_the_engine_answers(nano, library, tool):
    if tool == "icarus" and not shutil.which("iverilog"):
        pytest.skip("Icarus Verilog is not installed")
    shown = fusesoc(library, "run", "--clean", "--target", "sim", NAME, "--tool", tool)
    assert f"PASS: configuration {nano.sidecar['config_digest']}" in shown
