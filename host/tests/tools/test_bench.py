"""The benchmark: its targets, its comparison with stored reports, and the counters."""

import dataclasses
import importlib.util
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import matloom
from matloom.arch.config import PRESETS, Config
from matloom.arch.csr import COUNTERS, EXEC_CAUSES
from matloom.cli import cli
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.errors import UserError
from matloom.runtime import compile
from matloom.tools import bench
from matloom.tools.bench import (
    CASES,
    Result,
    check,
    graph_of,
    kept_cycles,
    peer_lines,
    table,
    to_json,
)

ROOT = Path(__file__).resolve().parents[3]
REPORTS = sorted((ROOT / "docs" / "results").glob("bench_*.json"))
CAUSES = [name for name, _doc in EXEC_CAUSES]

RESULT = Result(
    name="ic",
    macs=1000,
    cycles=100,
    target=120,
    utilisation=0.5,
    predicted_cycles=101,
    prediction_error=0.01,
    exception=None,
    exact=True,
    counters={**dict.fromkeys((name for name, _doc in COUNTERS), 0), "exec_stream": 97}
    | {"cycles": 100, "exec_wait_input": 3},
    bytes_read=80,
    bytes_written=8,
    peers={"someone": "616 us"},
    simulation_seconds=1.0,
    simulated_kilocycles_per_second=0.1,
    model_seconds=0.1,
    compile_seconds=0.1,
)


def kept(result):
    return {result.name: result.cycles}


def taking(cycles):
    counters = RESULT.counters | {"cycles": cycles, "exec_stream": cycles - 3}
    return dataclasses.replace(
        RESULT, cycles=cycles, predicted_cycles=cycles, prediction_error=0.0, counters=counters
    )


def _module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_per_cent_more_is_the_limit():
    assert check([taking(102)], kept(RESULT)) == []
    (problem,) = check([taking(103)], kept(RESULT))
    assert problem == "ic: cycles must be at most 100 + 2%, not 103"


def test_inexact_results_fail():
    (problem,) = check([dataclasses.replace(RESULT, exact=False)], kept(RESULT))
    assert problem == "ic: the chip and the model differ"


@pytest.mark.parametrize(
    ("predicted", "good"), [(95, True), (105, True), (94, False), (106, False)]
)
def test_predictions_are_within_five_per_cent(predicted, good):
    result = dataclasses.replace(RESULT, predicted_cycles=predicted)
    problems = check([result], kept(RESULT))
    assert (problems == []) == good
    if not good:
        error = f"{predicted - 100:+.1f}%"
        wanted = f"ic: predicted cycles must be within 5% of 100, not {predicted} ({error})"
        assert problems == [wanted]
        assert check([dataclasses.replace(result, exception="because")], kept(RESULT)) == []


def test_a_cycle_without_a_cause_fails():
    counters = RESULT.counters | {"exec_wait_input": 2}
    (problem,) = check([dataclasses.replace(RESULT, counters=counters)], kept(RESULT))
    assert problem == "ic: the causes must sum to the 100 cycles, not 99"


def test_a_kept_report_is_read(tmp_path):
    path = tmp_path / "bench_nano.json"
    path.write_text(to_json([RESULT], PRESETS["nano"], "nano"))
    assert kept_cycles(path) == {"ic": 100}


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"results": [{"name": "ic"}]}'])
def test_what_is_no_report_is_refused_before_measuring(text, tmp_path, monkeypatch):
    path = tmp_path / "bench_nano.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(bench, "run_bench", lambda *_, **__: pytest.fail("the work began"))
    words = ["bench", "--config", "nano", "--output", str(path), "--check"]
    error = CliRunner().invoke(cli, words).exception
    assert isinstance(error, UserError)
    assert str(path) in str(error)
    assert error.hint == "leave --check out to make one"


def test_new_cases_pass():
    assert check([dataclasses.replace(RESULT, name="new")], kept(RESULT)) == []


@pytest.mark.parametrize("width", [80, 160])
def test_table_fits_and_is_whole(width):
    """In 80 columns, speed, multiply-accumulates and target are left out, in that order."""
    names = [case.name for case in CASES]
    longest = dataclasses.replace(
        RESULT,
        macs=134_217_728,
        cycles=10_525_509,
        target=10_529_584,
        counters=RESULT.counters | {"exec_wait_constants": 4_000_000},
    )
    stream = io.StringIO()
    results = [dataclasses.replace(longest, name=name) for name in names]
    Console(width=width, file=stream).print(table(results, "reference"))
    lines = stream.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    for name in names:
        (line,) = [line for line in lines if line.startswith(f"{name}  ")]
        for text in ("10,525,509", "0.500", "+1.0%", "wait_constants 38.0%", "yes"):
            assert text in line
        assert ("10,529,584" in line and "134,217,728" in line) == (width == 160)
    assert len(set(names)) == len(names)


def test_peers_have_lines():
    assert peer_lines([RESULT]) == ["ic: someone 616 us"]


def test_targets_are_utilisations():
    """The published cycles at 16x16; the same utilisation of 16 multipliers at 4x4."""
    targets = {case.name: case for case in CASES}
    reference, nano = PRESETS["reference"], PRESETS["nano"]
    assert targets["ic"].target_cycles(12_501_632, reference) == 52_500
    assert targets["ic"].target_cycles(12_501_632, nano) == 16 * 52_500
    assert targets["matmul 512"].target_cycles(512**3, reference) == round(512**3 / 256 / 0.99)
    # 130 x 70 fill 144 x 80 of an array of sixteens, and 132 x 72 of one of fours.
    padded = targets["matmul 250x130x70"]
    macs = 250 * 130 * 70
    assert padded.target_cycles(macs, reference) == 250 * 144 * 80 / 256 / 0.9
    assert padded.target_cycles(macs, nano) == 250 * 132 * 72 / 16 / 0.9
    assert targets["digits"].target_cycles(378_176, nano) is None


def test_networks_of_an_absent_collection_are_named(monkeypatch):
    monkeypatch.setattr(bench, "collection", lambda: None)
    missing = [case.name for case in CASES if graph_of(case) is None]
    assert missing == ["ic", "kws", "vww", "ad", "ad, resident"]


def test_products_compile():
    program = compile(product_graph(32, 48, 16), "nano")
    assert program.macs == 32 * 48 * 16


def test_counters_of_a_chip_sum_to_its_cycles():
    """Each cycle has one cause, and units do not exceed the total."""
    with matloom.load(NETWORK, device="rtl", config="nano") as session:
        session.run(np.zeros((1, 8, 8, 1), np.int8))
        report = session.report()
    counters = report.counters
    assert report.cycles_source == "counters"
    assert sum(counters[name] for name in CAUSES) == counters["cycles"] == report.cycles
    assert counters["exec_stream"] + sum(report.stalls.values()) == report.cycles
    for name in ("load_busy", "post_busy", "store_busy", "read_beats", "write_beats"):
        assert 0 < counters[name] < report.cycles
    # 8 x 8 bytes in, 10 bytes out, four bytes per beat.
    assert counters["read_beats"] > 16
    assert counters["write_beats"] == 3
    assert counters["write_bursts"] == 1
    spent = [layer.cycles for layer in report.layers if layer.cycles is not None]
    assert sum(spent) <= report.cycles


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_kept_reports_account_for_every_cycle(path):
    report = json.loads(path.read_text())
    rows, columns = report["array"]
    assert report["results"]
    for item in report["results"]:
        counters = item["counters"]
        # A report may be older than a counter, or than its name.
        caused = sum(count for name, count in counters.items() if name.startswith("exec_"))
        assert caused == counters["cycles"] == item["cycles"]
        each_cycle = rows * columns * (2 if "i8xi4" in item["name"] else 1)
        assert item["utilisation"] == round(item["macs"] / (each_cycle * item["cycles"]), 4)
        assert item["exact"]
        error = item["predicted_cycles"] / item["cycles"] - 1
        assert item["prediction_error"] == round(error, 4)
        assert abs(error) <= 0.05 or item["exception"], item["name"]
        assert item["bytes_read"] == counters["read_beats"] * report["bus_bytes"]


@pytest.mark.slow
def test_layers_for_scalesim_have_the_networks_products():
    """SCALE-Sim's formula (pixels x window x filters) against the compiler's count."""
    scalesim = _module(ROOT / "bench" / "scalesim.py")
    for case in CASES:
        graph = graph_of(case)
        if graph is None or case.calls > 1:
            continue
        total = 0
        for layer, times in filter(None, (scalesim.layer_of(graph, node) for node in graph.nodes)):
            height = (layer.height - layer.kernel_height) // layer.stride + 1
            width = (layer.width - layer.kernel_width) // layer.stride + 1
            window = layer.kernel_height * layer.kernel_width * layer.channels
            total += height * width * window * layer.filters * times
        assert total == compile(graph, "reference").macs, case.name


def test_the_area_of_modes_is_of_present_configurations():
    """The report has each set of the script once; a cell is one multiplier block."""
    modes = _module(ROOT / "bench" / "modes.py")
    configs = {config.mac_modes: config for config in map(modes.config_of, modes.MODE_SETS)}
    results = json.loads(modes.REPORT.read_text())["results"]
    assert len({tuple(item["modes"]) for item in results}) == len(results)
    for item in results:
        config = Config.from_json(json.dumps(item["config"]))
        assert config == configs[tuple(item["modes"])]
        cycles = {mode: config.macs_per_cycle(mode) for mode in config.mac_modes}
        assert item["macs_per_cycle"] == cycles
        cells = config.rows * config.columns
        floats = config.float_rows * config.columns if config.has_float else 0
        assert cells <= item["mult18x18d"] <= cells + floats
        # A register, one before the product, the product, three levels of a tree, a second group;
        # parts put together.
        if not floats:
            assert item["latency_cycles"] == 7 + config.has_narrow
        path = item["critical_path"]
        total = path["logic_ns"] + path["routing_ns"]
        assert total == pytest.approx(1000 / item["fmax_mhz"], abs=0.05)


def test_the_page_is_made_from_the_reports():
    tables = _module(ROOT / "docs" / "tables.py")
    for page in tables.PAGES:
        assert tables.fill(page.read_text()) == page.read_text(), page.name


def test_plots_are_made_from_the_reports():
    """Each names its report by digest; the drawings differ between machines by fonts."""
    pytest.importorskip("matplotlib", reason="the plots are made by matplotlib: extra dev")
    plots = _module(ROOT / "bench" / "plots.py")
    assert plots.PLOTS
    for plot in plots.PLOTS:
        text = (plots.DRAWINGS / f"{plot.name}.svg").read_text()
        assert plots.digest(plot.source) in text, plot.name


def test_collections_are_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("MATLOOM_WILD", str(tmp_path))
    assert bench.collection("wild") is None
    (tmp_path / "models").mkdir()
    assert bench.collection("wild") == tmp_path
