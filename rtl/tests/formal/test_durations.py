"""Expected durations of proofs: from the report, or estimated if never measured."""

import json
from pathlib import Path

import pytest

from matloom.arch.config import load_config
from matloom_rtl.formal import durations, estimate_seconds
from matloom_rtl.formal.proof import Proof

REPORT = json.loads((Path(__file__).parents[3] / "docs" / "results" / "formal.json").read_text())


def test_the_table_is_that_of_the_report():
    """To renew it: python -m matloom_rtl.formal.durations docs/results/formal.json."""
    assert durations.durations_of(REPORT) == durations._load_durations()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["nano", "reference"])
def test_estimates_of_proofs_match_the_report(name):
    took = sum(claim["seconds"] for claim in REPORT["claims"] if name in claim["configs"])
    assert took / 2 < estimate_seconds(load_config(name)) < took * 2


@pytest.mark.parametrize(
    ("unit", "seconds"), [("A", 3.0), ("B, 0", 0.0), ("B, 2", 7.0), ("B, 9", 7.0), ("C", 3.0)]
)
def test_unmeasured_proofs_are_estimated_from_similar_ones(monkeypatch, unit, seconds):
    measured = {"A": 3.0, "B, 0": 0.0, "B, 2": 7.0}
    monkeypatch.setattr(durations, "_load_durations", lambda: measured)
    proof = Proof(kind="queues", unit=unit, statement="", build=lambda: None)
    assert durations.expected_seconds(proof) == seconds
