"""Reads and writes .npz files with any array names, without trusting the sizes in headers."""

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from matloom.errors import UserError, reason
from matloom.ir.graph import Array

#: Maximum bytes of all arrays together.
ARRAYS_LIMIT = 1 << 28

#: First bytes of .npy and of .npz files.
_MAGIC, _ARCHIVE = b"\x93NUMPY", b"PK"

#: Hint of errors: the call that writes a file with one array.
_SAVE = "numpy.save(FILE, array) writes one"

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(option: str, source: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file by name.

    The data of an array must have the length that its header states, and all arrays together must
    not exceed `ARRAYS_LIMIT`.

    Raises
    ------
    ValueError
        The file is missing or damaged; the message begins with `option`, which named it.
    """
    content = _read_bytes(option, source, "give an .npz file: numpy.savez(FILE, NAME=array)")
    try:
        if content[:6] == _MAGIC:
            raise ValueError("it holds one array without a name")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total > ARRAYS_LIMIT:
                raise ValueError(f"its arrays must have at most {ARRAYS_LIMIT} bytes, not {total}")
            return {
                member.filename.removesuffix(".npy"): _member_array(archive, member)
                for member in members
            }
    # Damaged archives and headers raise almost anything: zlib.error, NotImplementedError.
    except Exception as error:
        damaged = isinstance(error, zipfile.BadZipFile | zlib.error | EOFError)
        problem = "it is cut short or damaged" if damaged else error
        raise UserError(
            f"{option} must be an .npz file, not {str(source)!r}: {problem}",
            hint="numpy.savez(FILE, NAME=array) writes one, by the names of the inputs",
        ) from None


def write_arrays(target: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays by name as an .npz file, with any names.

    `numpy.savez` takes names as keywords, so it loses or refuses arrays named ``file`` or
    ``allow_pickle``.
    """
    with zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_single(option: str, source: Path) -> Array:
    """Return the array in an .npy file; raises ValueError like `read_arrays`."""
    content = _read_bytes(option, source, _SAVE)
    try:
        if len(content) > ARRAYS_LIMIT:
            raise ValueError(f"it must have at most {ARRAYS_LIMIT} bytes, not {len(content)}")
        if content[:2] == _ARCHIVE:
            raise ValueError("it is an archive")
        if not content:
            raise ValueError("it is empty")
        return _array_in_stream(io.BytesIO(content), "it", len(content))
    except ValueError as error:
        raise UserError(
            f"{option} must be an .npy file, not {str(source)!r}: {error}", hint=_SAVE
        ) from None


def read_samples(option: str, source: Path) -> dict[str, Array]:
    """Return the samples in an .npz file, by name; in an .npy file or a folder of these, as ``x``.

    Each .npy file of a folder is one sample, in the order of their names.

    Raises
    ------
    UserError
        A file is missing or damaged, or the files of a folder differ in shape or type.
    """
    if source.is_dir():
        return {"x": _stack_files(option, source)}
    return (
        {"x": read_single(option, source)}
        if source.suffix == ".npy"
        else read_arrays(option, source)
    )


def _stack_files(option: str, folder: Path) -> Array:
    """Return the arrays in the .npy files of a folder, along a new leading axis."""
    paths = sorted(folder.glob("*.npy"))
    if not paths:
        raise UserError(f"{option} must be a folder of .npy files, not {str(folder)!r}", hint=_SAVE)
    arrays: list[Array] = []
    for path in paths:
        array = read_single(option, path)
        if arrays and (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
            raise UserError(
                f"{option}: {path.name} must be {arrays[0].dtype} {arrays[0].shape} like "
                f"{paths[0].name}, not {array.dtype} {array.shape}",
                hint="give samples of one shape and type",
            )
        arrays.append(array)
        total = len(paths) * array.nbytes
        if total > ARRAYS_LIMIT:
            raise UserError(
                f"{option}: the files of {folder} must have at most {ARRAYS_LIMIT} bytes, "
                f"not {total}",
                hint="give fewer samples",
            )
    return np.stack(arrays)


def _read_bytes(option: str, source: Path, hint: str) -> bytes:
    """Return the bytes of a file; raise UserError if it cannot be read."""
    try:
        return source.read_bytes()
    except OSError as error:
        raise UserError(f"{option} cannot be read: {source}: {reason(error)}", hint=hint) from None


def _member_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """Return the array in a member of a zip archive; raise ValueError if it is damaged."""
    with archive.open(member) as stream:
        return _array_in_stream(stream, member.filename, member.file_size)


def _array_in_stream(stream: IO[bytes], name: str, size: int) -> Array:
    """Return the array in a stream of `size` bytes; raise ValueError if the header is wrong."""
    try:
        version = np.lib.format.read_magic(stream)
    except ValueError:
        raise ValueError(f"{name} does not begin like an .npy file") from None
    if version not in _HEADERS:
        raise ValueError(f"the header of {name} must be of version 1 or 2")
    try:
        shape, fortran, dtype = _HEADERS[version](stream)
    # NumPy evaluates the text of a header, which may raise anything.
    except Exception:
        raise ValueError(f"{name} has a header that is cut short or damaged") from None
    wanted = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, not numbers")
    if wanted != size - stream.tell():
        raise ValueError(f"{name} must have {wanted} bytes of data, not {size - stream.tell()}")
    data = stream.read(wanted + 1)
    if len(data) != wanted:
        raise ValueError(f"{name} must have {wanted} bytes of data, not {len(data)}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
