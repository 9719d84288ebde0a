"""Reads and writes .npz files: allows any array name, and does not trust sizes in headers."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array

__all__ = ["ARRAYS_LIMIT", "read_arrays", "read_single", "write_arrays"]

#: The maximum of bytes of all arrays together.
ARRAYS_LIMIT = 1 << 28

#: What writes a file of one array.
_SAVE = "numpy.save(FILE, array) writes one"

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(option: str, source: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file by name.

    No array may be larger than its data, nor all together larger than `ARRAYS_LIMIT`.

    Raises
    ------
    ValueError
        The file is missing or damaged; the message begins with the option that named it.
    """
    try:
        content = source.read_bytes()
    except OSError as error:
        problem = str(error.strerror).lower()
        raise UserError(
            f"{option} cannot be read: {source}: {problem}", hint="give an .npz file, or random"
        ) from None
    try:
        if content[:6] == b"\x93NUMPY":
            raise ValueError("it holds one array without a name")
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total > ARRAYS_LIMIT:
                raise ValueError(f"its arrays must have at most {ARRAYS_LIMIT} bytes, not {total}")
            return {
                member.filename.removesuffix(".npy"): _array(archive, member) for member in members
            }
    # Archives and headers that are damaged raise almost anything: zlib.error, NotImplementedError.
    except Exception as error:
        raise UserError(
            f"{option} must be an .npz file, not {str(source)!r}: {error}",
            hint="numpy.savez(FILE, NAME=array) writes one, by the names of the inputs",
        ) from None


def write_arrays(target: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays by name as an .npz file.

    `numpy.savez` takes names as keywords, so it loses or refuses arrays named ``file`` or
    ``allow_pickle``.
    """
    with zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_single(option: str, source: Path) -> Array:
    """Return the array in an .npy file; raises ValueError like `read_arrays`."""
    try:
        if source.stat().st_size > ARRAYS_LIMIT:
            raise ValueError(f"it must have at most {ARRAYS_LIMIT} bytes")
        found: Array = np.load(source, allow_pickle=False)
    # Of a damaged file, as above.
    except Exception as error:
        raise UserError(
            f"{option} must be an .npy file, not {str(source)!r}: {error}", hint=_SAVE
        ) from None
    if not isinstance(found, np.ndarray):
        raise UserError(
            f"{option} must be an .npy file, not {str(source)!r}: it is an archive", hint=_SAVE
        )
    return found


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """Return one array, whose data must be as long as its header says."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"the header of {member.filename} must be of version 1 or 2")
        shape, fortran, dtype = _HEADERS[version](stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size != member.file_size - stream.tell():
            raise ValueError(f"{member.filename} must have the data of {dtype} {shape}")
        data = stream.read(size + 1)
    if len(data) != size:
        raise ValueError(f"{member.filename} must have {size} bytes of data, not {len(data)}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
