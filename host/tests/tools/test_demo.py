"""The demonstration on the functional model: its output, and that it notices errors."""

import io

import numpy as np
import pytest
from rich.console import Console

from matloom.tools import demo

pytest.importorskip("sklearn", reason="the digits come with scikit-learn: extra demo")


def test_prints_what_it_promises():
    stream = io.StringIO()
    assert demo.run_demo(Console(file=stream, width=100), device="model", config="nano")
    text = stream.getvalue()
    for part in ("accuracy", "cycles per image", "utilisation", "images/s", "agrees bit for bit"):
        assert part in text
    assert "read as" in text


def test_notices_wrong_labels(monkeypatch):
    images, labels = demo.held_out()
    monkeypatch.setattr(demo, "held_out", lambda: (images[:40], np.roll(labels, 1)[:40]))
    assert not demo.run_demo(Console(file=io.StringIO()), device="model", config="nano")
