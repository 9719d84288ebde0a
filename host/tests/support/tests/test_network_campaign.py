"""Random networks on random engines: some here, thousands by bench/fuzz_networks.py."""

import hashlib
import statistics
from pathlib import Path

import pytest

from matloom.arch.config import PRESETS
from matloom.kernels.interpreter import initial_state
from matloom.schedule.tiling import cutting
from matloom.select.rewrites import elide_copies
from support import network_seeds
from support.network_campaign import (
    case_of,
    compile_case,
    digest,
    digests,
    engine_of,
    failure_of,
    operators_of,
    tflm_failure_of,
)
from support.network_seeds import chip_failure_of

#: Seeds that failed at some time.
KEPT = sorted(
    {int(line) for line in (Path(__file__).parent / "network_seeds.txt").read_text().split()}
)

#: A small network with a concatenation in place, and a first tile whose steps are split.
SENSITIVE = 121

#: A small network whose outputs depend on what it remembers.
STATEFUL = 2026112957


def test_networks(seed):
    first = 1_000_000 * (seed + 1)
    small = [number for number in range(first, first + 20) if operators_of(number) <= 20]
    for number in small[:6]:
        assert failure_of(case_of(number)) is None, f"seed {number}"


@pytest.mark.slow
@pytest.mark.parametrize("number", KEPT)
def test_seeds_that_once_failed(number):
    assert failure_of(case_of(number)) is None


def test_networks_that_remember_are_followed_from_call_to_call(monkeypatch):
    assert case_of(STATEFUL, PRESETS["small"]).graph.variables
    assert chip_failure_of(STATEFUL, "small", "model") is None
    monkeypatch.setattr(network_seeds, "next_state", lambda graph, _: initial_state(graph))
    assert "call 1: output" in chip_failure_of(STATEFUL, "small", "model")


def test_networks_as_tflite_micro_has_them(seed):
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    for number in range(4):
        assert tflm_failure_of(case_of(1_000_000 * (seed + 1) + 500 + number)) is None


@pytest.mark.slow
def test_another_process_compiles_the_same_bytes():
    seeds = [SENSITIVE, 61]
    assert digests(seeds, hash_seed=12345) == [digest(number) for number in seeds]
    content = compile_case(case_of(SENSITIVE)).program.to_bytes()
    assert digest(SENSITIVE) == hashlib.sha256(content).hexdigest()


def test_sizes():
    counts = [operators_of(number) for number in range(4000)]
    assert 14 <= statistics.median(counts) <= 16
    assert 0.04 < sum(count >= 80 for count in counts) / len(counts) < 0.06
    assert (min(counts), max(counts)) == (5, 150)


def test_engines_differ():
    configs = [engine_of(number) for number in range(100)]
    assert case_of(4).config == configs[4]
    assert {config.spad_banks for config in configs} == set(range(1, 9))
    assert min(config.spad_bytes for config in configs) >= 16 * 1024
    assert {config.rows for config in configs} >= {4, 8, 16, 32}
    assert any(config.has_words for config in configs)


def _forgets_blocks(stage, steps):
    """Split steps as the planner once did: the unit of kernel rows ignores the blocks."""
    loops = stage.loop_nest.fields((0, 1), (0, 1), 0)
    unit, outer = 1, loops["blocks"]
    for name, inside in (("kernel_cols", "blocks"), ("kernel_rows", "kernel_cols")):
        if loops[name] > 1:
            unit, outer = unit * loops[inside], loops[name]
    if len(steps) > 1 or outer == 1:
        return steps
    ((chunk, first, end),) = steps
    middle = end - max(1, outer // 3) * unit
    return [(chunk, first, middle), (chunk, middle, end)]


def test_a_defect_of_the_planner_is_found(monkeypatch):
    """Weights are never used, a bug once met with mnist_arduino_q."""
    assert failure_of(case_of(SENSITIVE)) is None
    monkeypatch.setattr(cutting, "split_first_steps", _forgets_blocks)
    assert failure_of(case_of(SENSITIVE)) is not None


def test_a_wrong_place_is_found(monkeypatch):
    """All parts of a concatenation are written to its first byte."""
    right = elide_copies._with_destination

    def wrong(producer, copy):
        made = right(producer, copy)
        return made and elide_copies.replace(
            made, output_layout=elide_copies.replace(made.output_layout, offset=0)
        )

    monkeypatch.setattr(elide_copies, "_with_destination", wrong)
    assert failure_of(case_of(SENSITIVE)) is not None
