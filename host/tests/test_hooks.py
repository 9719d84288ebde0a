"""The pre-commit hooks: `make setup` installs them, and they work offline."""

import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def hooks():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: extra dev")
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    return repository["hooks"]


def test_hooks_download_nothing():
    assert {hook["language"] for hook in hooks()} == {"system"}


def test_hooks_are_the_tools_of_make_lint():
    lines = subprocess.run(
        ["make", "--dry-run", "lint"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    linted = {tuple(shlex.split(line.removesuffix(" ."))) for line in lines if "/bin/" in line}
    entries = {tuple(shlex.split(hook["entry"])) for hook in hooks()}
    assert len(linted) >= 4
    assert linted <= entries


def test_setup_installs_them():
    done = subprocess.run(
        ["make", "--dry-run", "setup"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pre-commit install" in done.stdout
