"""Reports of measurements: a run for a part leaves the committed ones as they are."""

import argparse
import json
import sys
from pathlib import Path

import boards
import compile_time
import knobs
import pytest
import shapes

from support.reports import parse_with_report, read_report, report_path, write_report

BENCH = Path(__file__).resolve().parents[4] / "bench"


@pytest.fixture
def committed(tmp_path):
    path = tmp_path / "report.json"
    path.write_text('{"points": [], "changes": {}, "layers": []}')
    return path


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ([], "report.json"),
        (["--quiet"], "report.json"),
        (["--only", "a"], None),
        (["--limit", "5"], None),
        (["--only", "a", "--report", "mine.json"], "mine.json"),
        (["--report", "mine.json"], "mine.json"),
    ],
)
def test_which_report_is_written(words, written, monkeypatch, capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--quiet", action="store_true")
    monkeypatch.setattr(sys, "argv", ["measure", *words])
    chosen = parse_with_report(parser, Path("report.json"), ("only", "limit"))
    assert chosen.report == (None if written is None else Path(written))
    assert ("--report FILE" in capsys.readouterr().err) == (written is None)


def test_no_report():
    assert read_report(None) == {}
    write_report(None, "lost")
    assert report_path(None, Path("report.json"), whole=False) is None


def test_a_report_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "report.json"
    write_report(path, "[1]")
    assert read_report(path) == [1]
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def run(monkeypatch, script, words, **replaced):
    for name, value in replaced.items():
        monkeypatch.setattr(script, name, value)
    monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *words])
    script.main()


def test_layers_of_one_preset(committed, monkeypatch):
    def measure(sweep, preset, layers, size):
        return compile_time.Point(sweep=sweep, preset=preset, layers=layers, size=size)

    before = committed.read_text()
    run(monkeypatch, compile_time, ["--presets", "nano"], measure=measure, REPORT=committed)
    assert committed.read_text() == before
    run(monkeypatch, compile_time, [], measure=measure, REPORT=committed)
    assert len(json.loads(committed.read_text())["points"]) == 2 * 9


def test_the_cost_of_one_field(committed, monkeypatch):
    def measure(config):
        return {"total": {"LUT4": len(config)}}

    before = committed.read_text()
    words = ["--only", next(iter(knobs.CHANGES))]
    run(monkeypatch, knobs, words, measure_area=measure, REPORT=committed)
    assert committed.read_text() == before
    words += ["--report", str(committed)]
    run(monkeypatch, knobs, words, measure_area=measure, REPORT=committed)
    assert [*json.loads(committed.read_text())["changes"]] == words[1:2]


def test_one_shape(committed, monkeypatch):
    def measure(shape):
        return {"name": shape.name, "map": [*shape.map], "cycles": 1}

    before = committed.read_text()
    words = ["--only", shapes.SHAPES[0].name]
    run(monkeypatch, shapes, words, measure=measure, REPORT=committed)
    assert committed.read_text() == before


def test_no_script_writes_its_report_itself():
    """Scripts with options for a part write reports by `support.reports`."""
    for path in sorted(BENCH.glob("*.py")):
        text = path.read_text()
        if '"--only"' in text or "parse_with_report" in text:
            assert "REPORT.write_text" not in text, path.name
            assert "RESULTS.write_text" not in text, path.name


def test_an_unknown_board(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, boards, ["nosuch"])
    assert ended.value.code == 2
    assert "BOARD must be one of" in capsys.readouterr().err
