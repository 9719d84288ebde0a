"""The documentation: its commands run, its snippets run, its tables and drawings are fresh."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matloom.data.digits import NETWORK
from matloom.select.operators import ENGINE

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def _blocks(language):
    for page in PAGES:
        for number, block in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        ):
            yield pytest.param(block, id=f"{page.name}-{number}")


def _module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("block", list(_blocks("console")))
def test_commands_run(block, tmp_path):
    shutil.copy(NETWORK, tmp_path / "digits.tflite")
    np.savez(tmp_path / "in.npz", image=np.zeros((2, 8, 8, 1), np.int8))
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        words = shlex.split(line[2:])
        words[0] = str(Path(sys.executable).with_name(words[0]))
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"


@pytest.mark.parametrize("block", list(_blocks("python")))
def test_snippets_run(block, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="the snippets use scikit-learn's digits: extra demo")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "snippet", "exec"), {})


TABLES = _module(ROOT / "docs" / "tables.py")


@pytest.mark.parametrize("page", TABLES.PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_reports(page):
    assert TABLES.filled(page.read_text()) == page.read_text()


def test_operators_of_the_engine_are_listed():
    text = (ROOT / "docs" / "networks.md").read_text()
    table = text.split("## Operators on the engine")[1].split("\n\n")[1:]
    named = re.findall(r"^\| ([A-Z0-9_, ]+) \|", "\n".join(table), re.MULTILINE)
    assert sorted(", ".join(named).split(", ")) == sorted(ENGINE)


def test_drawings_are_those_of_their_sources():
    pytest.importorskip("wavedrom", reason="the drawings are made by wavedrom: extra dev")
    draw = _module(ROOT / "docs" / "drawings" / "draw.py")
    sources = sorted((ROOT / "docs" / "drawings").glob("*.json"))
    assert sources
    for source in sources:
        assert source.with_suffix(".svg").read_text() == draw.render(source), source.name


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
