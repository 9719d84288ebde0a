"""The micro front end, compared with TFLite Micro's own code, compiled."""

import numpy as np
import pytest

from matloom.pre import MicroFrontend, micro_frontend

SAMPLES = 8000
STAGE = MicroFrontend(samples=SAMPLES, step=160)


def library(samples):
    """Return the library's features, with windows of 480 samples every 160."""
    frontend = pytest.importorskip("pymicro_features").MicroFrontend()
    data, found = samples.tobytes(), []
    while data:
        made = frontend.process_samples(data)
        if made.features:
            found.append(made.features)
        data = data[2 * made.samples_read :]
    return np.rint(np.array(found) / (10 / 256)).astype(int)


def sounds():
    generator, time = np.random.default_rng(0), np.arange(SAMPLES)
    sweep = np.sin(time * time * 1e-4)
    yield "silence", np.zeros(SAMPLES)
    yield "one step", generator.integers(-1, 2, SAMPLES)
    yield "quiet", generator.normal(0, 3, SAMPLES)
    yield "noise", generator.normal(0, 300, SAMPLES)
    yield "full scale noise", generator.integers(-(2**15), 2**15, SAMPLES)
    yield "least number", np.full(SAMPLES, -(2**15))
    yield "square", np.where(time % 50 < 25, -(2**15), 2**15 - 1)
    yield "sine", 32767 * np.sin(time * 0.2)
    yield "sweep after silence", 20000 * sweep * (time > SAMPLES // 2)
    yield "click", np.where(time == 3000, 32767, 0)


@pytest.fixture
def same_logarithm(monkeypatch):
    """Use the C library's log1pf, as the compiled front end does."""
    micro_frontend._mel_bands.cache_clear()
    monkeypatch.setattr(micro_frontend, "_log1p", np.log1p)
    yield
    micro_frontend._mel_bands.cache_clear()


@pytest.mark.parametrize(("name", "samples"), list(sounds()), ids=[name for name, _ in sounds()])
def test_features_are_the_librarys(name, samples, same_logarithm):
    given = samples.clip(-(2**15), 2**15 - 1).astype(np.int16)
    expected = library(given)
    made = STAGE.features(given)
    assert made.dtype == np.uint16
    assert np.array_equal(made, expected)
    assert made.any() == (name != "silence")


def test_rounded_logarithms_move_few_features():
    given = np.random.default_rng(1).normal(0, 3000, SAMPLES).astype(np.int16)
    difference = np.abs(STAGE.features(given) - library(given))
    assert (difference > 0).mean() < 0.002


def test_numbers_are_scaled_features():
    given = np.random.default_rng(0).integers(-(2**15), 2**15, SAMPLES, np.int16)
    made = STAGE.apply(given)
    assert made.dtype == np.float32
    assert made.shape == STAGE.shape == (48, 40)
    assert np.array_equal(made, STAGE.features(given) * np.float32(10 / 256))


@pytest.mark.parametrize("fields", [{"window": 240}, {"window": 1000}, {"pcan": False}])
def test_other_windows_keep_tones_in_their_bands(fields):
    """A tone of 1 kHz is loudest in the band around it."""
    stage = MicroFrontend(samples=4000, **fields)
    tone = (8000 * np.sin(2 * np.pi * np.arange(4000) / 16)).astype(np.int16)
    loudest = stage.features(tone)[1].argmax()
    edges = 1127 * np.log1p(np.array([125, 1000, 7500]) / 700)
    band = (edges[1] - edges[0]) / (edges[2] - edges[0]) * (stage.mels + 1) - 1
    assert abs(loudest - band) <= 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"samples": 479}, r"samples must be 480 \(window\) or more, not 479"),
        ({"window": 1}, "window must be 2 to 4096 samples, not 1"),
        ({"window": 32}, "window must be more than 32 samples, not 32"),
        ({"step": 0}, "step must be a whole number from 1, not 0"),
        ({"mels": 2.5}, "mels must be a whole number from 1"),
        ({"low": 8000.0}, r"low must be 0 to 7500.0 \(high\)"),
        ({"rate": 8000}, "high must be below 4000.0"),
        ({"min_signal": 2.0}, "min_signal must be 0 to 1"),
        ({"gain_bits": 60}, "gain_bits must fit the window"),
    ],
)
def test_fields_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        MicroFrontend(**fields)


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        (np.zeros(SAMPLES, np.float32), TypeError, "a waveform must be int16, not float32"),
        (np.zeros(SAMPLES - 1, np.int16), ValueError, r"must have 8000 samples.*not \(7999,\)"),
        (np.zeros(0, np.int16), ValueError, r"must have 8000 samples"),
        (np.zeros((1, SAMPLES), np.int16), ValueError, r"in one axis, not \(1, 8000\)"),
    ],
)
def test_files_that_are_not_sound_are_refused(raw, error, message):
    with pytest.raises(error, match=message):
        STAGE.apply(raw)
