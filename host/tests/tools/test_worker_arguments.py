"""Arguments of benchmarks for where their tasks run."""

import argparse

import pytest
from worker_arguments import add_workers, workers_of


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_workers(parser)
    return workers_of(parser.parse_args(words))


def test_processes_or_a_cluster():
    assert (parsed().workers, parsed("--workers", "3").workers) == (1, 3)
    assert parsed("--cluster", "tcp://localhost:8786").cluster == "tcp://localhost:8786"


@pytest.mark.parametrize(
    "words", [("--cluster", "localhost"), ("--workers", "2", "--cluster", "tcp://a:1")]
)
def test_what_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert "cluster" in capsys.readouterr().err
