"""The documentation: commands and snippets run; tables and drawings are up to date."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import matloom
import walkthrough
from matloom import frontend
from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.isa import Opcode, Region
from matloom.arch.numerics import quantize_multiplier
from matloom.compiler.winners import VARIABLE
from matloom.data.digits import NETWORK
from matloom.select.operators import ENGINE
from support.float_network import float_network, float_samples
from support.float_onnx import float_onnx

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"
)
#: Pages whose commands run each time that tests run: a command takes a second or more to start.
FAST = {"README.md", "getting-started.md"}


def _blocks(language):
    for page in PAGES:
        for number, block in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        ):
            # Commands that write waves build a simulator of their own.
            slow = page.name not in FAST or "--waves" in block or number > 2
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(block, id=f"{page.name}-{number}", marks=marks)


def _module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write_floats(folder):
    """Write float networks, labelled samples, and the same samples with channels first."""
    (folder / "float.tflite").write_bytes(frontend.write(float_network())[1])
    (folder / "float.onnx").write_bytes(float_onnx())
    samples = float_samples(20)
    np.savez(folder / "samples.npz", image=samples, y=np.arange(20) % 5)
    np.savez(folder / "images.npz", image=np.moveaxis(samples, -1, 2))


@pytest.mark.parametrize("block", list(_blocks("console")))
def test_commands_run(block, tmp_path, monkeypatch):
    # Tuning by one page must not affect other tests.
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tuned"))
    shutil.copy(NETWORK, tmp_path / "digits.tflite")
    images = np.zeros((2, 8, 8, 1), np.int8)
    np.savez(tmp_path / "in.npz", image=images)
    np.savez(tmp_path / "test.npz", x=images, y=np.array([3, 8]))
    _write_floats(tmp_path)
    (tmp_path / "labels.csv").write_text("file,class\na.png,3\nb.png,8\n")
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        words = shlex.split(line[2:])
        beside = Path(sys.executable).with_name(words[0])
        found = str(beside) if beside.exists() else shutil.which(words[0])
        if found is None:
            pytest.skip(f"needs {words[0]}")
        words[0] = found
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("block", list(_blocks("python")))
def test_snippets_run(block, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="the snippets use scikit-learn's digits: extra demo")
    monkeypatch.chdir(tmp_path)
    _write_floats(tmp_path)
    exec(compile(block, "snippet", "exec"), {})


TABLES = _module(ROOT / "docs" / "tables.py")


@pytest.mark.parametrize("page", TABLES.PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_reports(page):
    assert TABLES.fill(page.read_text()) == page.read_text()


def test_numbers_of_the_walkthrough():
    """Numbers in its sentences that no table repeats."""
    sentences = (ROOT / "docs" / "how-a-conv2d-becomes-instructions.md").read_text()
    vectors, weights, rows = 0, 0, 0
    for item in walkthrough.instructions():
        if item.opcode is Opcode.EXEC:
            steps = item.kernel_rows * item.kernel_cols * item.blocks * item.oc_blocks
            vectors += steps * item.height * item.width
        if item.opcode is Opcode.LOAD and item.region == Region.PROGRAM:
            weights += item.row_bytes * item.rows * item.planes
        rows += item.height if item.opcode is Opcode.POST else 0
    assert (vectors, weights, rows) == (9 * 64, 9 * 256 + 64, 8)
    assert "9 steps * 64 positions = 576 cycles" in sentences
    assert quantize_multiplier(0.05 * 0.01 / 0.1) == (1_374_389_535, -7)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_installing_is_a_command_to_copy(page):
    """Install commands are in code blocks, and do not name the package on an index."""
    text = page.read_text()
    blocks = re.compile(r"^```.*?^```|^    .*?$", re.MULTILINE | re.DOTALL)
    assert "pip install" not in blocks.sub("", text)
    assert not re.search(r"matloom\[|pip install (-\S+ )*['\"]?matloom\b", text)


def test_first_commands_run_in_their_order(tmp_path):
    """Run the commands of getting started in an empty folder: each finds its input.

    `test_commands_run` runs the command that writes waves, since it builds its own simulator.
    """
    first = (ROOT / "docs" / "getting-started.md").read_text()
    lines = re.findall(r"^\$ (matloom .*)$", first, re.MULTILINE)
    assert len(lines) >= 8
    for line in (line for line in lines if "--waves" not in line):
        words = shlex.split(line)
        words[0] = str(Path(sys.executable).with_name(words[0]))
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_readme_fits_on_a_screen():
    """Three commands to the first inference, six lines of Python, a table of four rows."""
    text = (ROOT / "README.md").read_text()
    written = [line for line in text.splitlines() if line.strip()]
    assert len(written) <= 60
    assert {"make demo", "make test"} <= {line.split("  ")[0] for line in written}
    (snippet,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 6
    assert len([line for line in written if line.startswith("|")]) == 2 + 4


@pytest.mark.parametrize(
    ("page", "words"), [("docs/verification.md", 7000), ("bitstreams/README.md", 1800)]
)
def test_pages_to_read_are_short(page, words):
    """Experiments and long tables are on other pages: docs/campaigns.md, decisions."""
    assert len((ROOT / page).read_text().split()) <= words


def test_changes_are_entries_of_one_line():
    """Versions have one-line entries under Added, Changed and Fixed; the latest is open."""
    title, *versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert title.startswith("# Changelog")
    names = [version.split("\n")[0] for version in versions]
    assert names == ["Unreleased", "0.1.0"]
    assert matloom.__version__ == names[1]
    for version in versions:
        _about, *parts = re.split(r"^### ", version, flags=re.MULTILINE)
        assert [part.split("\n")[0] for part in parts] == ["Added", "Changed", "Fixed"]
        for line in "\n".join(part.partition("\n")[2] for part in parts).splitlines():
            assert not line or re.fullmatch(r"- \S.{0,240}|\*\*[A-Z][a-z ]+\*\*", line), line


def test_files_that_are_named_exist():
    for name in ("CONTRIBUTING.md", "docs/extending.md", "docs/tour.md"):
        for path in re.findall(
            r"`((?:host|rtl|bench|sim_tests|docs)/[^`]*)`", (ROOT / name).read_text()
        ):
            assert (ROOT / path).exists(), f"{name}: {path}"


def test_questions_of_the_tour_lead_to_their_answers():
    """Two files answer each, and contain the names that the tour mentions."""
    table = (ROOT / "docs" / "tour.md").read_text().split("## Questions")[1]
    rows = [line.split(" | ") for line in table.splitlines() if line.endswith("|")][2:]
    assert len(rows) == 16
    for question, *answers in rows:
        assert question.endswith("?")
        for answer in answers:
            for item in answer.split("; "):
                path, _, words = item.partition("`: ")
                found = re.match(r"`([\w/]+\.py)", path.strip())
                if found is None:
                    continue
                (source,) = [
                    place
                    for place in (ROOT / "host/matloom", ROOT / "rtl/matloom_rtl")
                    if (place / found[1]).is_file()
                ]
                text = (source / found[1]).read_text()
                for name in re.findall(r"`(\w+)`", words):
                    assert re.search(rf"\b{name}\b", text), f"{question} {found[1]}: {name}"


def test_each_cause_has_advice():
    text = (ROOT / "docs" / "getting-started.md").read_text()
    named = re.findall(r"^\| `(exec_\w+)` \|", text, re.MULTILINE)
    assert sorted(named) == sorted(name for name, _doc in EXEC_CAUSES if name != "exec_stream")


def test_the_glossary_has_each_term_once():
    text = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(
        r"\*\*([^*]+)\*\*", "\n".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))
    )
    assert len(terms) > 80
    assert len(terms) == len(set(terms))


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / target).resolve()
        for target in re.findall(r"\]\(([^)#]+)\)", index.read_text())
    }
    assert {page for page in (ROOT / "docs").glob("*.md") if page != index} <= linked


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


def test_each_decision_has_a_number_of_its_own():
    numbers = [page.name[:4] for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md")]
    assert sorted(numbers) == sorted(set(numbers))


def test_links_lead_somewhere():
    for page in (*PAGES, ROOT / "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
