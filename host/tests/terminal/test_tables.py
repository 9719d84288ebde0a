"""Tables fit a terminal by shortening only names, and are complete elsewhere."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from matloom.ir.graph import Op
from matloom.quantiser.options import Options
from matloom.quantiser.report import LayerQuality, QuantisationReport
from matloom.terminal.tables import (
    as_text,
    count_text,
    layer_table,
    plain_console,
    shorten,
    shorten_all,
)
from matloom.tools.layer_errors import OperatorErrors, layer_errors

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


@pytest.mark.parametrize(
    "form",
    [
        "functional_1/activation_{}/Relu",
        "layer_{}_depthwise/batch_normalization/FusedBatchNormV3/ReadVariableOp",
        "stage/very_long_beginning_of_a_name_that_ends_in_a_number_{}",
        "{}_number_at_the_front_of_a_very_long_name_that_does_not_fit",
    ],
)
@pytest.mark.parametrize("width", [9, 12, 20])
def test_shortened_names_of_layers_stay_different(form, width):
    names = [form.format(number) for number in range(12)]
    shown = shorten_all(["input", *names, names[3]], width)
    assert shown[0] == "input"
    assert len(set(shown[1:13])) == 12
    assert shown[13] == shown[4]
    assert all(cell_len(name) <= width for name in shown)


@pytest.mark.parametrize("width", range(5, 40))
def test_shortened_names_fit(width):
    assert all(cell_len(name) <= width for name in shorten_all([*NAMES, *NAMES[:2]], width))
    for stem in ("\u5c42" * 30, "n" * 50):
        shown = shorten_all([f"{stem}{number}{stem}" for number in range(3)], width)
        assert all(cell_len(name) <= width for name in shown)


def test_columns_that_can_be_spared_go_first():
    row = ("n" * 40, "RESIZE_NEAREST_NEIGHBOR", "12,345,678", "1,234,567")
    lines = rendered(a_table([row]), 50)
    assert "bytes" not in "".join(lines)
    assert "RESIZE_NEAREST_NEIGHBOR  12,345,678" in lines[-1]


@pytest.mark.parametrize("width", [80, 100])
def test_errors_of_layers_fit(width):
    layers = [
        OperatorErrors(operator=operator, tensor=f"model/layer_{number}/Relu", elements=12_345_678)
        for number, operator in enumerate(OPERATORS)
    ]
    noisy = [
        replace(layer, different=12_345_678, largest=1.234e-10, signal=1e6, noise=1.0)
        for layer in layers
    ]
    for each in (layers, noisy):
        lines = rendered(layer_errors("net against its reference", each), width)
        assert "\u2026" not in "".join(lines)
        assert all(cell_len(line) <= width for line in lines)
        assert len({line.split()[0] for line in lines[4:]}) == len(OPERATORS)


@pytest.mark.parametrize("cycles", [None, 123_456])
def test_layers_of_a_quantisation_fit(cycles):
    layers = tuple(
        LayerQuality(
            name=f"model/layer_{number}/Relu",
            operator=operator,
            kind="int16",
            bits=8,
            least=-1.0,
            largest=1.0,
            sqnr_db=-12.3,
            low=-1.2345e-10,
            high=1.2345e-10,
            saturated=1.0,
            predicted_cycles=cycles,
        )
        for number, operator in enumerate(OPERATORS)
    )
    report = QuantisationReport(
        network="net",
        options=Options(),
        calibrated=(0,),
        tried=(),
        tested=(1,),
        layers=layers,
        outputs=(),
        bytes_before=2,
        bytes_after=1,
        cycles=cycles,
    )
    text = "\n".join(rendered(report.table(), 80))
    assert "\u2026" not in text
    assert text.count("1.234e-10") == 2 * len(OPERATORS)
    assert ("cycles" in text) == (cycles is not None)


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
