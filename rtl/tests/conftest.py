"""Chips that many tests look at, generated once for each worker."""

import pytest

from matloom.arch.config import PRESETS
from matloom_rtl.generate import generate


@pytest.fixture(scope="session")
def nano():
    return generate(PRESETS["nano"])
