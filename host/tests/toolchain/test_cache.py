"""Where the cache folder is."""

import subprocess
import sys

import pytest

from matloom.toolchain.cache import cache_folder, exclusive


def test_environment_chooses(monkeypatch, tmp_path):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"


def test_default_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("MATLOOM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name == "matloom"


def test_space_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "my cache"))
    with pytest.raises(ValueError, match=r"no space in its path, not '.*my cache'"):
        cache_folder()


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
