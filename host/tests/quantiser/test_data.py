"""Generated samples: their two parts have no source in common."""

import numpy as np
import pytest
import quantise
import quantise_data

NEEDS = {"digits": "sklearn", "letters": "PIL", "mnist1d": "mnist1d"}


@pytest.mark.parametrize("name", quantise_data.GENERATORS)
def test_parts_have_no_source_in_common(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    if name == "spoken" and len(quantise_data.installed_voices()) < 2:
        pytest.skip("neither espeak-ng nor flite is installed")
    parts = quantise_data.GENERATORS[name](20, seed=1)
    assert not set(parts[0].sources) & set(parts[1].sources)
    for part in parts:
        assert len(part.x) == len(part.y) == len(part.sources) == 20
        assert part.x.dtype == np.float32
        assert np.isfinite(part.x).all()
        assert part.x.std() > 0


def pieces(name, samples):
    """Return what samples are made of, as bytes: frames of `ad`, which windows share, or all."""
    rows = samples.reshape(-1, 128) if name == "ad" else samples.reshape(len(samples), -1)
    return {row.tobytes() for row in rows}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("name", quantise.NETWORKS)
def test_networks_are_measured_on_samples_that_calibrate_no_quantiser(name):
    given = quantise.case(name)
    measured = pieces(name, given.test)
    if given.views is not None:
        measured |= pieces(name, given.views)
    assert len(given.calibration) == 100
    assert not pieces(name, given.calibration) & measured
