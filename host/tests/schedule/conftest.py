"""Fixtures of tests about schedules."""

import pytest

from matloom.schedule import search


@pytest.fixture
def no_fused_layers(monkeypatch):
    """Keep maps whole that leave the chip: no layers around them are fused."""
    monkeypatch.setattr(search, "LAYOUTS", search.LAYOUTS[1:])
