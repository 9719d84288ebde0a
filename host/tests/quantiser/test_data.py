"""Generated samples: their two parts have no source in common."""

import numpy as np
import pytest
import quantise_data

NEEDS = {"digits": "sklearn", "letters": "PIL", "mnist1d": "mnist1d"}


@pytest.mark.parametrize("name", quantise_data.GENERATORS)
def test_parts_have_no_source_in_common(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    if name == "spoken" and len(quantise_data.voices()) < 2:
        pytest.skip("neither espeak-ng nor flite is installed")
    parts = quantise_data.GENERATORS[name](20, seed=1)
    assert not set(parts[0].sources) & set(parts[1].sources)
    for part in parts:
        assert len(part.x) == len(part.y) == len(part.sources) == 20
        assert part.x.dtype == np.float32
        assert np.isfinite(part.x).all()
        assert part.x.std() > 0
