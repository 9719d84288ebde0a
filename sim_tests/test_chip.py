"""Runs the testbenches of this folder in cocotb on the generated chip, in Verilator."""

import functools
import os
from pathlib import Path

import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from matloom.arch.config import PRESETS, load_config
from matloom.toolchain.find_verilator import find_verilator
from matloom_rtl.generate import TOP_NAME
from support.chip_build import LIBRARIES, built
from support.folders import FOLDERS

HERE = Path(__file__).parent
BENCHES = sorted(path.stem for path in HERE.glob("tb_*.py"))
CHOSEN = os.environ.get("MATLOOM_CONFIG")
WAVES = bool(os.environ.get("WAVES"))

#: How many seeds each testbench sees in the slow part.
SEEDS = 4

#: The testbenches that are part of every run of the tests; the others are slow.
FAST = ("tb_commands", "tb_network", "tb_registers")

#: What no preset has, and the testbench of it.
GUARDED, GUARDS = "nano+parity=1+time_limit=1", "tb_guards"


def _cases():
    """Return the test cases: a fast and a slow set, or those of a configuration given by name."""
    if CHOSEN:
        return [pytest.param(each, CHOSEN, 0, id=f"{Path(CHOSEN).stem}-{each}") for each in BENCHES]
    more = [("nano", seed) for seed in range(1, SEEDS)] + [("small", 0), ("reference", 0)]
    cases = [("nano", 0, each) for each in FAST]
    slow = [("nano", 0, each) for each in BENCHES if each not in (*FAST, GUARDS)]
    slow += [(*one, each) for one in more for each in BENCHES if each != GUARDS]
    slow += [(GUARDED, 0, GUARDS), (GUARDED, 0, "tb_faults")]
    return [
        pytest.param(each, name, seed, id=f"{name}-{seed}-{each}", marks=marks)
        for group, marks in ((cases, ()), (slow, pytest.mark.slow))
        for name, seed, each in group
    ]


def _config_text(name):
    """Return a name for `load_config`: a preset with its changes, or an absolute path."""
    return name if name.split("+")[0] in PRESETS else str(Path(name).absolute())


@functools.cache
def _build(config):
    """Return the folder of the built simulation of a configuration."""
    return built(config, WAVES)


@pytest.mark.parametrize(("bench", "name", "offset"), _cases())
def test_chip(name, offset, bench, seed, tmp_path, monkeypatch):
    config = load_config(_config_text(name))
    if bench == GUARDS and not (config.parity or config.time_limit):
        pytest.skip("this configuration has neither parity nor a limit on an instruction's time")
    print(f"replay: MATLOOM_CONFIG={name} pytest sim_tests -k {bench} --seed={seed + offset}")
    _run(bench, name, seed + offset, _build(config), tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["printable", "control"])
def test_a_cache_may_have_any_name(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / FOLDERS[kind]))
    find_verilator.cache_clear()
    folder = built(load_config("nano"), waves=False)
    _run("tb_registers", "nano", 0, folder, tmp_path, monkeypatch)
    find_verilator.cache_clear()


def _run(bench, name, seed, folder, tmp_path, monkeypatch):
    """Run the tests of the module `bench` on a built simulation; all must pass."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARIES))
    # The simulator's Python takes its search path from this process's.
    monkeypatch.syspath_prepend(HERE)
    results = get_runner("verilator").test(
        hdl_toplevel=TOP_NAME,
        hdl_toplevel_lang="verilog",
        test_module=bench,
        build_dir=folder,
        test_dir=tmp_path,
        results_xml=str(tmp_path / "results.xml"),
        seed=seed,
        extra_env={
            "MATLOOM_CONFIG": _config_text(name),
            # The AXI models use names that cocotb deprecates.
            "PYTHONWARNINGS": "ignore::DeprecationWarning",
        },
        test_filter=os.environ.get("MATLOOM_TEST"),
        waves=WAVES,
    )
    tests, failures = get_results(results)
    assert tests
    assert not failures
