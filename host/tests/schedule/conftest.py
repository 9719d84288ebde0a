"""Fixtures of tests about schedules."""

import pytest

from matloom.schedule import search


@pytest.fixture
def no_row_turns(monkeypatch):
    """Keep maps whole that leave the chip: no layers around them make rows in turn."""
    monkeypatch.setattr(search, "LAYOUTS", search.LAYOUTS[1:])
