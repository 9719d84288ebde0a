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
from matloom.toolchain.verilator import find_verilator
from matloom_rtl.generate import TOP_NAME, generate

HERE = Path(__file__).parent
BENCHES = sorted(path.stem for path in HERE.glob("tb_*.py"))
CHOSEN = os.environ.get("MATLOOM_CONFIG")
WAVES = bool(os.environ.get("WAVES"))

#: How many seeds each testbench sees in the slow part.
SEEDS = 4

#: The registers and memories of the chip stay private to Verilator, which makes it fast.
_ARGUMENTS = ["-Wno-fatal", "--no-public-flat-rw", "-O3", "--x-initial", "fast", "--no-assert"]
_PUBLIC = f'`verilator_config\npublic_flat_rw -module "{TOP_NAME}" -var "*"\n'


def _cases():
    """A fast and a slow share; a configuration that was asked for by name is all there is."""
    if CHOSEN:
        return [pytest.param(CHOSEN, 0, id=Path(CHOSEN).stem)]
    more = [("nano", seed) for seed in range(1, SEEDS)] + [("small", 0), ("reference", 0)]
    return [
        pytest.param("nano", 0, id="nano"),
        *(
            pytest.param(name, seed, id=f"{name}-{seed}", marks=pytest.mark.slow)
            for name, seed in more
        ),
    ]


@functools.cache
def _build(config):
    """Build the simulation unless the cache has it; the key covers Verilog, tools and flags.

    Also where cocotb lies: the executable loads its library from there.
    """
    chip = generate(config)
    versions = [find_verilator().version, metadata.version("cocotb"), cocotb.__file__]
    key = hashlib.sha256()
    for part in (chip.verilog, _PUBLIC, json.dumps([versions, _ARGUMENTS, WAVES])):
        key.update(part.encode() + b"\0")
    folder = cache_folder() / "sim_tests" / f"{config.digest:08x}-{key.hexdigest()[:16]}"
    done = folder / "built"
    with exclusive(done):
        if not done.exists():
            chip.write(folder)
            control = folder / "public.vlt"
            control.write_text(_PUBLIC)
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


@pytest.mark.parametrize("bench", BENCHES)
@pytest.mark.parametrize(("name", "offset"), _cases())
def test_chip(name, offset, bench, seed, tmp_path, monkeypatch):
    for variable, value in find_verilator().environment.items():
        monkeypatch.setenv(variable, value)
    # The simulator's Python takes its search path from this process's.
    monkeypatch.syspath_prepend(HERE)
    source = name if name in PRESETS else str(Path(name).absolute())
    folder = _build(load_config(source))
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
