"""Runs the testbenches of this folder in cocotb on the generated chip, in Verilator."""

import functools
import hashlib
import json
import os
from importlib import metadata
from pathlib import Path

import cocotb
import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from matloom.arch.config import PRESETS, load_config
from matloom.toolchain.cache import cache_folder, exclusive
from matloom.toolchain.find_verilator import find_verilator
from matloom_rtl.generate import TOP_NAME, generate

HERE = Path(__file__).parent
BENCHES = sorted(path.stem for path in HERE.glob("tb_*.py"))
CHOSEN = os.environ.get("MATLOOM_CONFIG")
WAVES = bool(os.environ.get("WAVES"))

#: How many seeds each testbench sees in the slow part.
SEEDS = 4

#: The registers and memories of the chip stay private to Verilator, which makes it fast; but for
#: the accumulators where there is parity, in which `tb_guards` flips bits.
_ARGUMENTS = ["-Wno-fatal", "--no-public-flat-rw", "-O3", "--x-initial", "fast", "--no-assert"]
#: For make, which else has g++ optimise for size: that takes longer, and runs no faster.
_FAST = "OPT_FAST=-O1"
_PUBLIC = f'`verilator_config\npublic_flat_rw -module "{TOP_NAME}" -var "*"\n'
_SUMS = f'public_flat_rw -module "{TOP_NAME}.core.accumulators" -var "bank_*"\n'

#: What no preset has, and the testbench of it.
GUARDED, GUARDS = "nano+parity=1+time_limit=1", "tb_guards"


def _cases():
    """A fast and a slow share; a configuration that was asked for by name is all there is."""
    if CHOSEN:
        return [pytest.param(each, CHOSEN, 0, id=f"{Path(CHOSEN).stem}-{each}") for each in BENCHES]
    more = [("nano", seed) for seed in range(1, SEEDS)] + [("small", 0), ("reference", 0)]
    cases = [("nano", 0, each) for each in BENCHES if each != GUARDS]
    slow = [(*one, each) for one in more for each in BENCHES if each != GUARDS]
    slow += [(GUARDED, 0, GUARDS), (GUARDED, 0, "tb_faults")]
    return [
        pytest.param(each, name, seed, id=f"{name}-{seed}-{each}", marks=marks)
        for group, marks in ((cases, ()), (slow, pytest.mark.slow))
        for name, seed, each in group
    ]


def _described(name):
    """Return what `load_config` takes anywhere: a preset with its changes, or a whole path."""
    return name if name.split("+")[0] in PRESETS else str(Path(name).absolute())


@functools.cache
def _build(config):
    """Build the simulation unless the cache has it; the key covers Verilog, tools and flags.

    Also where cocotb lies: the executable loads its library from there.
    """
    chip = generate(config)
    versions = [find_verilator().version, metadata.version("cocotb"), cocotb.__file__]
    key = hashlib.sha256()
    public = _PUBLIC + _SUMS * config.parity
    for part in (chip.verilog, public, json.dumps([versions, _ARGUMENTS, _FAST, WAVES])):
        key.update(part.encode() + b"\0")
    folder = cache_folder() / "sim_tests" / f"{config.digest:08x}-{key.hexdigest()[:16]}"
    done = folder / "built"
    with exclusive(done):
        if not done.exists():
            chip.write(folder)
            control = folder / "public.vlt"
            control.write_text(public)
            get_runner("verilator").build(
                sources=[control, folder / f"{TOP_NAME}.v"],
                hdl_toplevel=TOP_NAME,
                build_dir=folder,
                build_args=_ARGUMENTS,
                timescale=("1ns", "1ps"),
                waves=WAVES,
                log_file=folder / "build.log",
            )
            done.touch()
    return folder


@pytest.mark.parametrize(("bench", "name", "offset"), _cases())
def test_chip(name, offset, bench, seed, tmp_path, monkeypatch):
    for variable, value in find_verilator().environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("MAKEFLAGS", _FAST)
    # The simulator's Python takes its search path from this process's.
    monkeypatch.syspath_prepend(HERE)
    source, config = _described(name), load_config(_described(name))
    if bench == GUARDS and not (config.parity or config.time_limit):
        pytest.skip("this configuration has neither parity nor a limit on an instruction's time")
    folder = _build(config)
    print(f"replay: MATLOOM_CONFIG={name} pytest sim_tests -k {bench} --seed={seed + offset}")
    results = get_runner("verilator").test(
        hdl_toplevel=TOP_NAME,
        hdl_toplevel_lang="verilog",
        test_module=bench,
        build_dir=folder,
        test_dir=tmp_path,
        results_xml=str(tmp_path / "results.xml"),
        seed=seed + offset,
        # The AXI models use names that cocotb deprecates.
        extra_env={"MATLOOM_CONFIG": source, "PYTHONWARNINGS": "ignore::DeprecationWarning"},
        test_filter=os.environ.get("MATLOOM_TEST"),
        waves=WAVES,
    )
    tests, failures = get_results(results)
    assert tests
    assert not failures
