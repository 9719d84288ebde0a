"""Figures in hand-written pages are generated, derived from a constant, or not there.

What was measured is stale with the next change unless a test makes it again: it belongs between
generated markers (`docs/tables.py`), into a dated decision, or nowhere.
"""

import re
from pathlib import Path

import figures
import pytest

from matloom.arch import link
from matloom.arch.memory import REFERENCE_MEMORY
from matloom.arch.numerics import quantize_multiplier
from matloom.arch.program_file import TENSOR_LIMIT
from matloom.frontend.tflite.tensors import ENGINE_LIMIT
from matloom.tools import bench
from matloom.tuner import search

ROOT = Path(__file__).resolve().parents[2]


def derived():
    """Return the figures that pages may contain, from where they are defined."""
    latency = f"{REFERENCE_MEMORY.read_latency} cycles"
    growth, error = (f"{100 * x:.0f} %" for x in (bench._TOLERANCE, bench._PREDICTION_TOLERANCE))
    page = "how-a-conv2d-becomes-instructions.md"
    return {
        # The memory that cycles are counted with.
        ("architecture.md", latency): None,
        ("performance.md", latency): None,
        # Limits of `matloom bench --check`.
        **dict.fromkeys((("performance.md", growth), ("performance.md", error)), None),
        **dict.fromkeys((("getting-started.md", error), (page, error)), None),
        # How much slower a first call of a tuned schedule may be.
        ("tuning.md", f"{100 * (search._FIRST_SLOWER - 1):.1f} %"): None,
        # The level of confidence of an interval, by definition.
        ("accuracy.md", "95 %"): None,
        # All of the array's cycles, by definition.
        ("getting-started.md", "100 %"): None,
        # The example of the page, worked out; test_docs.py counts its instructions.
        **dict.fromkeys(((page, f"{9 * 64} cycles"), (page, "3 kernel")), None),
        (page, f"{quantize_multiplier(0.005)[0]:,}"): None,
        # The protocol of the line.
        **dict.fromkeys(("link.md", f"{n:,}") for n in (link.BAUD, link.MAX_DATA_BYTES)),
        ("link.md", f"{link.BUFFER_BYTES:,}"): None,
        ("link.md", str(link.HELLO_BYTES)): None,
        ("firmware.md", f"{link.BUFFER_BYTES:,}"): None,
        # AXI4: no burst crosses such a boundary.
        **dict.fromkeys((("verification.md", "4 KiB"), ("tour.md", "4 KiB")), None),
        # What fits sums of 32 bits, of numbers of 16.
        ("numerics.md", f"{(2**31 - 1) // 2**15:,}"): None,
        # The largest tensors: of a file, and on the engine.
        ("CHANGELOG.md", f"{TENSOR_LIMIT >> 30} GiB"): None,
        ("networks.md", f"{ENGINE_LIMIT >> 20} MiB"): None,
    }


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_every_figure_is_generated_or_derived(page):
    known = derived()
    lines = page.read_text().splitlines()
    found = [
        f"{page.relative_to(ROOT)}:{number}: {figure!r} in {lines[number - 1].strip()[:120]!r}"
        for number, figure in figures.figures(page.read_text())
        if (page.name, figure) not in known
    ]
    assert not found, "put them between generated markers, or leave them out:\n" + "\n".join(found)


def test_each_derived_figure_is_on_its_page():
    """An allowance that no page needs must be removed."""
    have = {
        (page.name, figure)
        for page in figures.PAGES
        for _, figure in figures.figures(page.read_text())
    }
    assert set(derived()) <= have


@pytest.mark.parametrize(
    "text",
    [
        "routes at 88.0 MHz by seed 6",
        "takes 9,428 tables of six inputs",
        "| `ulx3s-25f` | `mini` | 15,948 |",
        "| ic | 0.76 |",
        "in 5.48 ms, or 0.2 s",
        "7,078 tests",
        "notices 279 of the mutants, of which 12 proofs",
        "4 % slower",
        "`nano` with 64 KiB of memory",
        "the first 20 networks of 36",
        "```text\nbuild: 72.07 MHz by seed 4\n```",
        "```console\n$ matloom fit x\nabout 84 MHz\n```",
        "after a block\n```python\nx = 1\n```\nit is 44 MHz",
        "1,234 of something",
        "held by 11.9 ns of wire",
        "3 Mbaud",
        "frames: 58 of 60",
    ],
)
def test_a_figure_is_found(text):
    assert list(figures.figures(text))


@pytest.mark.parametrize(
    "text",
    [
        "a bus of 64 bits",
        "int8, 16x16, 3x3 at stride 1",
        "Python 3.11 or newer",
        "[decision 0003](decisions/0003-clock.md)",
        "`--freq 66` and `clock_hz = 25_000_000`",
        "```c\nuint32_t x = 88; /* 75 MHz */\n```",
        "<!-- devices: begin -->\n| nano | 97.8 MHz |\n<!-- devices: end -->",
        "    matloom generate --seeds 8 seeds",
        "| 10 | a step of the tour |",
        "version 6 and TensorFlow 2",
    ],
)
def test_other_numbers_are_none(text):
    assert not list(figures.figures(text))


def names(page):
    """Return the folders, source files and modules that a page names as code."""
    code = re.findall(r"`([^`\n]*)`", figures.without_generated_blocks(page.read_text()))
    folders = r"(?:host|rtl|bench|sim_tests|docs|firmware|examples|bitstreams)/[\w./-]+"
    kinds = (folders, r"[\w./-]+\.(?:py|h|c|cc|cpp|ld|S)", r"matloom(?:_rtl)?(?:\.\w+)+")
    return {word for word in code if any(re.fullmatch(kind, word) for kind in kinds)}


def exists(name):
    """Return whether a path (or the end of one) or module, with attributes, exists."""
    if re.fullmatch(r"matloom(?:_rtl)?(?:\.\w+)+", name):
        return module_exists(*name.split("."))
    return (ROOT / name).exists() or any(path.endswith(f"/{name}") for path in SOURCES)


def module_exists(package, *parts):
    path = ROOT / ("rtl" if package == "matloom_rtl" else "host") / package
    for at, part in enumerate(parts):
        if (path / part).is_dir():
            path /= part
            continue
        file = path / (f"{part}.py" if (path / f"{part}.py").is_file() else "__init__.py")
        within = parts[at + 1 :] if file.stem == part else parts[at:]
        text = file.read_text() if file.is_file() else ""
        return all(re.search(rf"\b{word}\b", text) for word in within)
    return True


FOLDERS = ("host", "rtl", "bench", "sim_tests", "docs", "firmware", "examples", "bitstreams")
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.*")
    if path.suffix in {".py", ".h", ".c", ".cc", ".cpp", ".ld", ".S"}
]
#: Files that users write, or that commands write for them.
OF_USERS = {
    "firmware.md": {"src/digits.c", "src/digits.h", "test/test_digits.c"},
    "integration.md": {
        *("matloom.v", "matloom.json", "matloom.core", "generated/mem.h", "generated/soc.h"),
    },
    "MISRA.md": {"stdio.h", "time.h"},
    "README.md": {"src/NETWORK.c", "src/NETWORK.h", "src/matloom.h"},
}
NAMING = sorted({*figures.PAGES, *(ROOT / "docs").glob("decisions/*.md")} - {ROOT / "CHANGELOG.md"})


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.name)
def test_paths_and_modules_that_are_named_exist(page):
    known = OF_USERS.get(page.name, set())
    assert {name for name in names(page) if not exists(name)} <= known
