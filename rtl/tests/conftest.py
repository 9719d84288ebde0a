"""Chips that many tests use, generated once for each worker."""

import pytest

from matloom.arch.config import PRESETS


@pytest.fixture(scope="session")
def nano():
    # Imported here: a trial of a mutant begins without the hardware.
    from matloom_rtl.generate import generate

    return generate(PRESETS["nano"])
