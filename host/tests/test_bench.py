"""The benchmark's comparison with the kept report, and its tables."""

import dataclasses
import io

from rich.console import Console

from matloom.arch.config import PRESETS
from matloom.bench import CASES, Result, check, table, to_json
from matloom.products import product_graph
from matloom.runtime import compile

RESULT = Result(
    name="ic",
    macs=1000,
    cycles=100,
    predicted_cycles=101,
    utilisation=0.5,
    target=120,
    exact=True,
    simulation_seconds=1.0,
    simulated_kilocycles_per_second=0.1,
    model_seconds=0.1,
    compile_seconds=0.1,
    stalls={"exec_wait_load": 3},
)


def kept(result):
    return to_json([result], PRESETS["nano"], "nano")


def test_two_per_cent_more_is_the_limit():
    assert check([dataclasses.replace(RESULT, cycles=102)], kept(RESULT)) == []
    (problem,) = check([dataclasses.replace(RESULT, cycles=103)], kept(RESULT))
    assert problem == "ic: cycles must be at most 100 + 2%, not 103"


def test_inexact_results_fail():
    (problem,) = check([dataclasses.replace(RESULT, exact=False)], kept(RESULT))
    assert problem == "ic: the chip and the model differ"


def test_new_cases_pass():
    assert check([dataclasses.replace(RESULT, name="new")], kept(RESULT)) == []


def test_table_shows_targets():
    stream = io.StringIO()
    Console(width=120, file=stream).print(table([RESULT], "nano"))
    assert "120" in stream.getvalue()
    assert "+1.0%" in stream.getvalue()
    assert len({case.name for case in CASES}) == len(CASES)


def test_products_compile():
    program = compile(product_graph(32, 48, 16), "nano")
    assert program.macs == 32 * 48 * 16
