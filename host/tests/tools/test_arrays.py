"""Arrays in .npz files: read completely, or refused with one message."""

import io
import random
import struct
import zipfile

import numpy as np
import pytest

from matloom.errors import UserError
from matloom.tools import arrays
from matloom.tools.arrays import read_arrays, read_samples, read_single


def archive_of(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def refused(path, data, sentence):
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"^--input must be an .npz file, not '.*': {sentence}"):
        read_arrays("--input", path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_as_numpy_does(save, tmp_path):
    path = tmp_path / "in.npz"
    given = {
        "a": np.arange(6, dtype=np.int8).reshape(2, 3),
        "b": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "c": np.float32(3),
        "d": np.zeros((0, 4), np.int16),
    }
    save(path, **given)
    found = read_arrays("--input", path)
    assert set(found) == set(given)
    for name, array in given.items():
        assert found[name].dtype == np.asarray(array).dtype
        np.testing.assert_array_equal(found[name], array)


def test_headers_are_checked_against_the_file(tmp_path):
    path, whole = tmp_path / "in.npz", npy(np.zeros((1, 8), np.int8))
    refused(path, archive_of(a=whole.replace(b"(1, 8)", b"(9**9)")), ".")
    huge = whole.replace(b"(1, 8), }  ", b"(99999, 9)}")
    refused(path, archive_of(a=huge), "a.npy must have 899991 bytes of data, not 8")
    refused(path, archive_of(a=whole[:-1]), "a.npy must have 8 bytes of data, not 7")
    refused(path, archive_of(a=whole[:6] + b"\x03" + whole[7:]), "the header of a.npy must be")
    refused(path, archive_of(a=b"text"), ".")
    refused(path, archive_of(a=npy(np.zeros(1)).replace(b"<f8", b"|O8")), "a.npy holds Python")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"text of any kind", "it does not begin like an .npy file"),
        (npy(np.zeros(8))[:5], "it does not begin like an .npy file"),
        (npy(np.zeros(8))[:50], "it has a header that is cut short or damaged"),
        (npy(np.zeros(8))[:-1], "it must have 64 bytes of data, not 63"),
        (npy(np.zeros(8)).replace(b"<f8", b"|O8"), "it holds Python objects, not numbers"),
        (archive_of(a=npy(np.zeros(8))), "it is an archive"),
    ],
)
def test_damaged_files_of_one_array(content, sentence, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^--data must be an .npy file, not '.*': {sentence}\n"):
        read_single("--data", path)


@pytest.mark.parametrize("read", [read_arrays, read_single])
def test_a_missing_file_is_said_to_be_missing(read, tmp_path):
    with pytest.raises(ValueError, match=r"--data cannot be read: .*x: no such file or dir"):
        read("--data", tmp_path / "x")


def test_a_cut_archive_is_said_to_be_cut(tmp_path):
    whole = archive_of(a=npy(np.zeros(8)))
    refused(tmp_path / "in.npz", whole[:-30], "it is cut short or damaged")


def test_sizes_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "ARRAYS_LIMIT", 100)
    data = archive_of(a=npy(np.zeros(8)), b=npy(np.zeros(8)))
    refused(tmp_path / "in.npz", data, "its arrays must have at most 100 bytes, not 384")


def test_data_must_be_there(tmp_path):
    """The archive's directory promises more than the member contains."""
    whole = npy(np.zeros(8, np.int8))
    data = bytearray(archive_of(a=whole.replace(b"(8,), } ", b"(16,), }")))
    at = data.index(b"PK\1\2")
    for offset in (20, 24):
        struct.pack_into("<I", data, at + offset, len(whole) + 8)
    refused(tmp_path / "in.npz", bytes(data), ".")


def test_files_that_other_libraries_cannot_read(tmp_path):
    data = bytearray(archive_of(a=npy(np.zeros(8))))
    struct.pack_into("<H", data, data.index(b"PK\1\2") + 10, 77)
    refused(tmp_path / "in.npz", bytes(data), "That compression method is not supported")


def test_damage(tmp_path):
    path, draw = tmp_path / "in.npz", random.Random(5)
    np.savez_compressed(path, a=np.arange(30), b=np.zeros(3))
    data = path.read_bytes()
    refusals = 0
    for _ in range(300):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(changed)
        try:
            read_arrays("--input", path)
        except ValueError as error:
            refusals += str(error).startswith("--input must be an .npz file")
    assert refusals > 100


def test_samples_in_a_folder_are_stacked_in_the_order_of_their_names(tmp_path):
    for number in (2, 0, 1):
        np.save(tmp_path / f"s{number}.npy", np.full((2, 3), number, np.float32))
    (tmp_path / "README.txt").write_text("not a sample")
    (samples,) = read_samples("--data", tmp_path).values()
    assert (samples.shape, samples.dtype) == ((3, 2, 3), np.float32)
    assert samples[:, 0, 0].tolist() == [0, 1, 2]


def test_samples_in_files(tmp_path):
    given = np.arange(6).reshape(3, 2)
    np.save(tmp_path / "in.npy", given)
    np.savez(tmp_path / "in.npz", a=given, y=given[:, 0])
    assert np.array_equal(read_samples("--data", tmp_path / "in.npy")["x"], given)
    assert set(read_samples("--data", tmp_path / "in.npz")) == {"a", "y"}


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({}, "--data must be a folder of .npy files, not "),
        (
            {"a": np.zeros((2, 3)), "b": np.zeros((3, 2))},
            "--data: b.npy must be float64 (2, 3) like a.npy, not float64 (3, 2)",
        ),
        (
            {"a": np.zeros(2), "b": np.zeros(2, np.float32)},
            "--data: b.npy must be float64 (2,) like a.npy, not float32 (2,)",
        ),
    ],
)
def test_a_folder_holds_samples_of_one_kind(tmp_path, others, sentence):
    for name, array in others.items():
        np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(UserError) as caught:
        read_samples("--data", tmp_path)
    assert str(caught.value).startswith(sentence)


def test_a_folder_of_samples_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "ARRAYS_LIMIT", 200)
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.zeros(10, np.int8))
    read_samples("--data", tmp_path)
    monkeypatch.setattr(arrays, "ARRAYS_LIMIT", 150)
    for number in range(16):
        np.save(tmp_path / f"{number}.npy", np.zeros(10, np.int8))
    with pytest.raises(UserError, match="must have at most 150 bytes, not 160"):
        read_samples("--data", tmp_path)
