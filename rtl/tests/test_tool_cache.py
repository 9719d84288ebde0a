"""The cache of tools in WebAssembly: the user's, or one that can be written."""

import os
from pathlib import Path

import pytest

from matloom_rtl.tool_cache import writable_tool_cache


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A home that is a file, so that not even root can write in it."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    for name in ("XDG_CACHE_HOME", "MATLOOM_CACHE"):
        monkeypatch.delenv(name, raising=False)


def used():
    before = dict(os.environ)
    with writable_tool_cache():
        found = os.environ.get("XDG_CACHE_HOME")
        is_there = found is None or Path(found).is_dir()
    assert dict(os.environ) == before
    assert is_there
    return found


def test_a_cache_that_can_be_written_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert used() == str(tmp_path / "cache")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert used() is None


@pytest.mark.parametrize("given", [None, "file/below"])
def test_matlooms_cache_serves(monkeypatch, tmp_path, given):
    if given is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / given))
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "ours"))
    assert used() == str(tmp_path / "ours")


@pytest.mark.parametrize("given", [None, "file/below"])
def test_a_temporary_cache_serves(monkeypatch, tmp_path, given):
    if given is not None:
        monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / given))
    found = Path(used())
    assert found.name.startswith("matloom-tools-")
    assert not found.exists()
