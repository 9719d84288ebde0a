"""Fixtures of tests about schedules."""

import pytest

from matloom.schedule import search


@pytest.fixture
def no_fused_layers(monkeypatch):
    """Keep maps whole that leave the chip: no layers around them are fused."""
    others = tuple(each for each in search.LAYOUTS if each.without != "whole maps")
    monkeypatch.setattr(search, "LAYOUTS", others)
