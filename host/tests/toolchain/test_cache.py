"""The cache: its folder, and the integrity of its entries."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from matloom.toolchain.cache import (
    CacheError,
    CacheWarning,
    cache_folder,
    entry,
    exclusive,
    find,
    read_note,
    write_note,
)
from matloom.toolchain.process import ToolError


def test_environment_chooses(monkeypatch, tmp_path):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"


def test_default_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("MATLOOM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name == "matloom"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fill(folder):
    (folder / "deep").mkdir()
    (folder / "deep" / "library.so").write_bytes(bytes(range(256)) * 100)
    (folder / "text").write_text("text")
    (folder / "link").symlink_to("text")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def replace(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def remove(path):
    path.unlink()


def directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut, empty, replace, remove, directory])
@pytest.mark.parametrize("name", ["deep/library.so", "text", "digests.json"])
def test_damaged_entries_are_rebuilt(cache, name, damage):
    made = []

    def make(folder):
        made.append(folder)
        fill(folder)

    folder = entry("kind/name", make)
    assert entry("kind/name", make) == folder == cache / "kind" / "name"
    assert len(made) == 1
    damage(folder / name)
    assert entry("kind/name", make) == folder
    assert len(made) == 2
    assert (folder / "deep" / "library.so").stat().st_size == 25600
    assert find("kind/name") == folder


@pytest.mark.parametrize("what", ["more", "link", "file"])
def test_an_entry_that_is_another_is_made_anew(cache, what):
    folder = entry("kind/name", fill)
    if what == "more":
        (folder / "stranger").touch()
    elif what == "link":
        (folder / "link").unlink()
        (folder / "link").symlink_to("deep/library.so")
    else:
        shutil.rmtree(folder)
        folder.write_text("no folder")
    assert find("kind/name") is None
    entry("kind/name", fill)
    assert (folder / "link").read_text() == "text"
    assert not (folder / "stranger").exists()


def test_interrupted_builds_leave_no_entry(cache):
    def fail(folder):
        fill(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        entry("kind/name", fail)
    # As a process that was killed leaves it.
    (cache / "kind" / ".name.making-killed").mkdir()
    assert find("kind/name") is None
    entry("kind/name", fill)
    assert sorted(path.name for path in (cache / "kind").iterdir()) == [".name.lock", "name"]


def test_a_full_disk_is_one_sentence(cache):
    def full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CacheError, match=r"the disk of the cache folder .* is full") as caught:
        entry("kind/name", full)
    assert "MATLOOM_CACHE" in caught.value.hint


def test_errors_of_tools_are_passed_on(cache):
    def fail(folder):
        raise ToolError("g++ failed")

    with pytest.raises(ToolError, match=r"^g\+\+ failed"):
        entry("kind/name", fail)


@pytest.mark.parametrize("chosen", ["file/below", "file"])
def test_a_folder_that_cannot_be_written_has_a_substitute(monkeypatch, tmp_path, chosen):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / chosen))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(CacheWarning, match=r"file.*cannot be written.*MATLOOM_CACHE"):
        folder = entry("kind/name", fill)
    assert folder.is_relative_to(tmp_path / f"matloom-cache-{os.getuid()}")
    # It is said once, and another process finds what was made.
    assert entry("kind/name", None) == folder


def test_a_full_cache_that_can_only_be_read_serves(monkeypatch, cache):
    folder = entry("kind/name", fill)
    monkeypatch.setattr("matloom.toolchain.cache._why_not_writable", lambda folder: "read-only")
    assert entry("kind/name", None) == folder


def test_a_substitute_of_somebody_else_is_not_trusted(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"matloom-cache-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(CacheWarning):
        entry("kind/name", fill)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_notes_are_kept_whole(cache):
    assert read_note("notes/one") == ""
    write_note("notes/one", "text")
    assert read_note("notes/one") == "text"
    assert sorted(path.name for path in (cache / "notes").iterdir()) == ["one", "one.digest"]


@pytest.mark.parametrize("damage", [cut, empty, replace, remove, directory])
@pytest.mark.parametrize("name", ["one", "one.digest"])
def test_a_damaged_note_is_none(cache, name, damage):
    write_note("notes/one", "text")
    damage(cache / "notes" / name)
    assert read_note("notes/one") == ""
    if damage is not directory:
        write_note("notes/one", "text")
        assert read_note("notes/one") == "text"


def test_a_note_of_another_name_is_none(cache):
    write_note("notes/one", "text")
    for ending in ("", ".digest"):
        (cache / "notes" / f"one{ending}").rename(cache / "notes" / f"two{ending}")
    assert read_note("notes/two") == ""


def test_one_process_at_a_time(tmp_path):
    script = (
        "import sys; from pathlib import Path; from matloom.toolchain.cache import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('mine')"
    )
    path = tmp_path / "folder" / "made"
    with exclusive(path):
        command = [sys.executable, "-c", script, str(path)]
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1)
    with other:
        assert other.communicate(timeout=30)[0] == "mine\n"
