"""Tables fit a terminal by shortening only names, and are complete elsewhere."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from matloom.ir.graph import Op
from matloom.terminal.tables import as_text, count_text, layer_table, plain_console, shorten

NAMES = [
    "StatefulPartitionedCall/mobilenet_1.00_224/conv_pw_13_bn/FusedBatchNormV3",
    "x",
    "[red]",
    "\u5c42" * 30,
    "e\u0301te\u0301/\u00e9t\u00e9",
    "",
]
OPERATORS = sorted(str(op) for op in Op)


def rendered(table, width):
    stream = io.StringIO()
    Console(file=stream, width=width, markup=False, emoji=False).print(table)
    return stream.getvalue().splitlines()


def a_table(rows, spare=("bytes",)):
    table = layer_table("net", ("output", "operator"), ("MACs", "bytes"), spare=spare)
    for row in rows:
        table.add_row(*row)
    return table


@pytest.mark.parametrize("width", [60, 72, 80, 100, 132])
@pytest.mark.parametrize("name", NAMES)
def test_only_names_are_shortened(name, width):
    rows = [(name, operator, "12,345,678", "1,234,567") for operator in OPERATORS]
    lines = rendered(a_table(rows), width)
    assert all(cell_len(line) <= width for line in lines)
    for operator in OPERATORS:
        (line,) = [line for line in lines if f" {operator} " in line]
        assert line.rstrip().endswith("12,345,678  1,234,567")
    assert "\u2026" not in "".join(lines)


@pytest.mark.parametrize("width", [60, 80, 1 << 16])
def test_a_title_takes_one_line(width):
    table = layer_table(f"{'n' * 240} for configuration nano", ("output",), ("MACs",))
    table.add_row("stem", "1")
    title, *rest = rendered(table, width)
    assert title == shorten(f"{'n' * 240} for configuration nano", width)
    assert title.endswith("n for configuration nano")
    assert not any("nnn" in line for line in rest)


def test_names_are_whole_where_there_is_room():
    lines = rendered(a_table([(name, "ADD", "1", "2") for name in NAMES]), 1 << 16)
    text = "\n".join(lines)
    for name in NAMES:
        assert name in text
    assert max(map(len, lines)) < 120


def test_a_long_name_keeps_both_ends():
    assert shorten("abcdefghijklmnop", 9) == "abc...nop"
    assert shorten("abcdefghij", 10) == "abcdefghij"
    for room in range(5, 40):
        for name in NAMES:
            assert cell_len(shorten(name, room)) <= room


def test_columns_that_can_be_spared_go_first():
    row = ("n" * 40, "RESIZE_NEAREST_NEIGHBOR", "12,345,678", "1,234,567")
    lines = rendered(a_table([row]), 50)
    assert "bytes" not in "".join(lines)
    assert "RESIZE_NEAREST_NEIGHBOR  12,345,678" in lines[-1]


def test_a_pipe_has_no_width_and_columns_sets_one(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = a_table([("n" * 300, "ADD", "1", "2")])
    assert "n" * 300 in as_text([table])
    assert as_text(["word " * 100]).count("\n") == 0
    assert plain_console().width > 10_000
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, as_text([table, "word " * 100]).splitlines())) <= 80


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 buffers"), (1, "1 buffer"), (2, "2 buffers"), (1000, "1,000 buffers")],
)
def test_counted(count, text):
    assert count_text(count, "buffer") == text
