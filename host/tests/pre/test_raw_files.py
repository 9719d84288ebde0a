"""`matloom run --input` with pictures, sound and single arrays."""

import wave

import numpy as np
import pytest
from click.testing import CliRunner

from matloom import cli
from matloom.tools.raw_files import read_raw

STAGE = '{"Image": {"size": [8, 8], "channels": "grey", "scale": 0.0627}}'


def run(*arguments):
    return CliRunner().invoke(cli.cli, [*map(str, arguments)])


def write_sound(path, samples, rate=16000, channels=1):
    with wave.open(str(path), "wb") as stream:
        stream.setparams((channels, samples.itemsize, rate, 0, "NONE", ""))
        stream.writeframes(samples.tobytes())


def test_a_picture_and_an_array_run_alike(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    pillow.fromarray(image).save(tmp_path / "cat.png")
    np.save(tmp_path / "cat.npy", image)
    (tmp_path / "stage.json").write_text(STAGE)
    made = []
    for source, stage in (("cat.png", tmp_path / "stage.json"), ("cat.npy", STAGE)):
        options = ("--device", "fast", "--config", "nano", "--preprocess", stage)
        result = run("run", "digits", "--input", tmp_path / source, *options)
        assert result.exit_code == 0, result.output
        made.append(result.stdout.splitlines()[0])
    assert made[0].startswith("probabilities: int8 1x10: ")
    assert made[0] == made[1]


def test_sound_is_read_as_it_is(tmp_path):
    samples = np.random.default_rng(0).integers(-(2**15), 2**15, 100, np.int16)
    write_sound(tmp_path / "a.wav", samples, 8000)
    found = read_raw("--input", tmp_path / "a.wav")
    assert np.array_equal(found.array, samples)
    assert found.rate == 8000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.png", b"\x89PNG\r\n", "--input must be a picture, not"),
        ("a.jpg", b"", "--input must be a picture, not"),
        ("a.wav", b"RIFF", "--input must be a .wav file, not"),
        ("a.npy", b"\x93NUMPY", "--input must be an .npy file, not"),
        ("b.png", None, "--input cannot be read: .*b.png: no such file"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_raw("--input", tmp_path / name)


@pytest.mark.parametrize(("kind", "channels"), [(np.int16, 2), (np.uint8, 1)])
def test_other_kinds_of_sound_are_refused(tmp_path, kind, channels):
    write_sound(tmp_path / "a.wav", np.zeros(8, kind), channels=channels)
    with pytest.raises(ValueError, match="must be of one channel and 16 bits, not"):
        read_raw("--input", tmp_path / "a.wav")
