"""Samples for measurements of quantisers: calibration and evaluation have no source in common.

Each generator divides what its samples are made of (photographs, recordings, fonts, voices, rows of
a data set) into two parts first, and makes samples from one part only, which
`host/tests/quantiser/test_data.py` checks.
"""

import shutil
import subprocess
import wave
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from matloom.ir.graph import Array

#: Letters that are drawn, and words that are spoken.
LETTERS = "ABCDEFGHIJ"
WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One part of a generated data set, for calibration or for evaluation.

    Members
    -------
    x, y:
        Samples as float32, and their classes.
    sources:
        For each sample, the name of what it was made from, such as a font or a voice.
    """

    x: Array
    y: Array
    sources: tuple[str, ...]


def split_sources(sources: list[str], seed: int) -> tuple[list[str], list[str]]:
    """Return two random halves of a list of sources, drawn with a seed."""
    order = np.random.default_rng(seed).permutation(len(sources))
    half = len(sources) // 2
    return [sources[at] for at in order[:half]], [sources[at] for at in order[half:]]


def draw_crops(photographs: Array, count: int, seed: int) -> Array:
    """Return `count` augmented photographs (n, height, width, channels), of values from 0 to 1.

    They are shifted, mirrored or not, and brightened or darkened.
    """
    draw = np.random.default_rng(seed)
    made = []
    for at in range(count):
        image = photographs[at % len(photographs)]
        shift = draw.integers(-8, 9, 2)
        image = np.roll(image, shift, (0, 1))
        image = image[:, ::-1] if draw.integers(2) else image
        gain = draw.uniform(0.7, 1.2)
        # On the grid of a camera's bytes.
        made.append(np.rint(np.clip(image * gain, 0, 1) * 255) / 255)
    return np.array(made, np.float32)


def make_anomalies(windows: Array, seed: int) -> Array:
    """Return spectra (n, 640) of faulty machines, made from normal ones.

    Each has a tone that the machine does not have, or lacks a band that it has, in all its frames.
    """
    draw = np.random.default_rng(seed)
    made = windows.copy().reshape(len(windows), 5, 128)
    for window in made:
        band, width = draw.integers(0, 110), draw.integers(2, 14)
        window[:, band : band + width] += draw.choice([-1, 1]) * draw.uniform(2, 9)
    return made.reshape(windows.shape)


def installed_fonts() -> list[str]:
    """Return the installed fonts that have Latin letters, those of Matplotlib among them."""
    from matplotlib import font_manager

    found = {Path(path).name: path for path in font_manager.findSystemFonts()}
    names = sorted(name for name in found if not _is_symbols(name))
    return [found[name] for name in names]


def _is_symbols(name: str) -> bool:
    """Return whether a font's name suggests that it has symbols instead of letters."""
    words = ("cmex", "cmsy", "symbol", "emoji", "dingbat", "cmmi", "wingding", "nonuni")
    return any(word in name.lower() for word in words)


def draw_letters(count: int, seed: int = 0) -> tuple[Part, Part]:
    """Return `count` letters of 28 x 28 pixels for calibration, and as many in other fonts."""
    from PIL import Image, ImageDraw, ImageFont

    draw = np.random.default_rng(seed)
    parts = []
    for half in split_sources(installed_fonts(), seed):
        images, labels, sources = [], [], []
        for at in range(count):
            font, label = half[draw.integers(len(half))], at % len(LETTERS)
            picture = Image.new("L", (28, 28))
            size, place = int(draw.integers(16, 26)), draw.uniform(-3, 3, 2) + 14
            pen = ImageDraw.Draw(picture)
            face = ImageFont.truetype(font, size)
            pen.text(tuple(place), LETTERS[label], font=face, fill=255, anchor="mm")
            picture = picture.rotate(draw.uniform(-15, 15))
            images.append(np.asarray(picture, np.float32)[..., np.newaxis] / 255)
            labels.append(label)
            sources.append(font)
        parts.append(Part(x=np.array(images), y=np.array(labels), sources=tuple(sources)))
    return parts[0], parts[1]


def draw_digits(count: int, seed: int = 0) -> tuple[Part, Part]:
    """Return two parts of up to `count` handwritten digits of 8 x 8 pixels, from scikit-learn."""
    from sklearn.datasets import load_digits

    data = load_digits()
    parts = []
    for half in split_sources([str(row) for row in range(len(data.target))], seed):
        rows = [int(row) for row in half[:count]]
        x = (data.images[rows] / 16).astype(np.float32)[..., np.newaxis]
        sources = tuple(half[:count])
        parts.append(Part(x=x, y=np.asarray(data.target[rows]), sources=sources))
    return parts[0], parts[1]


def mnist1d(count: int, seed: int = 0) -> tuple[Part, Part]:
    """Return lines of 40 numbers that resemble digits, as the package mnist1d makes them."""
    from mnist1d.data import get_dataset_args, make_dataset

    parts = []
    for place in range(2):
        options = get_dataset_args()
        # Another seed draws other lines: none is in both parts.
        options.num_samples, options.seed = 2 * count, 2 * seed + place
        data = make_dataset(options)
        x = np.concatenate([data["x"], data["x_test"]])[:count].astype(np.float32)
        y = np.concatenate([data["y"], data["y_test"]])[:count].astype(np.int64)
        sources = tuple(f"seed {options.seed}, line {row}" for row in range(len(x)))
        parts.append(Part(x=x[:, np.newaxis, :, np.newaxis], y=y, sources=sources))
    return parts[0], parts[1]


def installed_voices() -> list[str]:
    """Return the installed voices: names of speech programs, each with a pitch or a voice."""
    found = []
    if shutil.which("espeak-ng"):
        pitches = range(20, 90, 10)
        found += [f"espeak-ng -v en{kind} -p {p}" for kind in ("", "-us", "+f3") for p in pitches]
    if shutil.which("flite"):
        found += [f"flite -voice {voice}" for voice in ("kal", "rms", "slt", "awb")]
    return found


def speak_words(count: int, seed: int = 0) -> tuple[Part, Part]:
    """Return two parts of `count` spoken words with noise; they have no voice in common.

    Each is 49 frames of 10 frequency bands.
    """
    draw = np.random.default_rng(seed)
    parts = []
    for half in split_sources(installed_voices(), seed):
        known: dict[tuple[str, str], Array] = {}
        lines, labels, sources = [], [], []
        for at in range(count):
            voice, word = half[draw.integers(len(half))], WORDS[at % len(WORDS)]
            if (voice, word) not in known:
                known[voice, word] = _speak(voice, word)
            sound = known[voice, word] * draw.uniform(0.3, 1)
            lines.append(_spectra(sound + draw.normal(0, 0.01, len(sound))))
            labels.append(at % len(WORDS))
            sources.append(voice)
        parts.append(Part(x=np.array(lines), y=np.array(labels), sources=tuple(sources)))
    return parts[0], parts[1]


def _speak(voice: str, word: str) -> Array:
    """Return one second of speech at 16 kHz: a word in a voice."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "word.wav"
        end = ["-w", str(path), word] if "espeak" in voice else ["-t", word, "-o", str(path)]
        subprocess.run([*voice.split(), *end], check=True, capture_output=True)
        with wave.open(str(path)) as file:
            rate = file.getframerate()
            sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
    places = np.arange(16000) * rate / 16000
    return np.interp(places, np.arange(len(sound)), sound, right=0.0)


def _spectra(sound: Array) -> Array:
    """Return the logarithmic energies of 10 frequency bands in 49 frames, (49, 10, 1)."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, 640)[::320][:49]
    energy = np.abs(np.fft.rfft(frames * np.hanning(640))) ** 2
    edges = np.geomspace(4, energy.shape[1], 11).astype(int)
    bands = [energy[:, low:high].mean(axis=1) for low, high in pairwise(edges)]
    return np.log(np.array(bands).T + 1e-6).astype(np.float32)[..., np.newaxis]


#: By name; each takes the samples of a part and a seed.
GENERATORS: dict[str, Callable[..., tuple[Part, Part]]] = {
    "digits": draw_digits,
    "letters": draw_letters,
    "mnist1d": mnist1d,
    "spoken": speak_words,
}
