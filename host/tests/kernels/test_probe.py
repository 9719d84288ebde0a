"""Processes that try networks on interpreters: crashes, and reuse."""

import os

import pytest

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

from matloom.kernels import probe
from matloom.kernels.interpreters import Cut

PACKAGE = "ai-edge-litert"


def cut(length):
    """Return a network of one ABS; a new `length` makes it unknown to the cache."""
    x, y = (FileTensor(name=name, shape=(length,), dtype="float32") for name in "xy")
    operator = FileOperator(name="ABS", inputs=(0,), outputs=(1,))
    network = FileNetwork(tensors=(x, y), operators=(operator,), inputs=(0,), outputs=(1,))
    return Cut(content=write_file(network), arena=2**16, inputs=1, outputs=1)


@pytest.fixture
def processes(monkeypatch):
    """Return the processes that are kept, and drop them afterwards."""
    own = probe._Processes()
    monkeypatch.setattr(probe, "_processes", own)
    return own


def test_one_process_answers_within_a_block(processes):
    with probe.keep_processes():
        assert probe.refusals(PACKAGE, [cut(1001)]) == [""]
        (kept,) = processes._kept.values()
        assert probe.tensor_shapes(cut(1).content, {0: (7,)}, [])[0][1] == (7,)
        assert [*processes._kept.values()] == [kept]
        with probe.keep_processes():
            pass
        assert processes._kept
    assert not processes._kept
    assert kept._running.returncode is not None


def test_a_process_that_ended_is_replaced(processes):
    with probe.keep_processes():
        assert probe.refusals(PACKAGE, [cut(1002)]) == [""]
        (kept,) = processes._kept.values()
        kept._running.kill()
        kept._running.wait()
        assert probe.refusals(PACKAGE, [cut(1003)]) == [""]
        assert kept not in processes._kept.values()


def test_a_fork_starts_its_own_processes(processes, monkeypatch):
    with probe.keep_processes():
        assert probe.refusals(PACKAGE, [cut(1005)]) == [""]
        (kept,) = processes._kept.values()
        with monkeypatch.context() as fork:
            fork.setattr(os, "getpid", lambda: 1)
            processes.end()
        assert [*processes._kept.values()] == [kept]


def test_no_process_is_kept_outside_a_block(processes):
    assert probe.refusals(PACKAGE, [cut(1006)]) == [""]
    assert not processes._kept
