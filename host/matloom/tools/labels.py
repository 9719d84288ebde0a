"""Reads labels: from an array in the inputs' .npz file, an .npy file, or a column of a CSV file."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from matloom.errors import UserError, did_you_mean, reason
from matloom.ir.graph import Array
from matloom.tools.arrays import read_single


def read_labels(source: str, arrays: Mapping[str, Array]) -> Array:
    """Return the labels that --labels names: an array of --input, or a file, or a CSV column.

    Parameters
    ----------
    source:
        The name of one of `arrays`, a ``.npy`` file, or ``FILE.csv[:COLUMN]`` with a column heading
        or a number from 0; the default is the last column.

    Raises
    ------
    UserError
        The labels do not exist or cannot be read.
    """
    if source in arrays:
        return arrays[source]
    file, _, column = source.partition(".csv")
    if file != source and (not column or column.startswith(":")):
        return _column(Path(f"{file}.csv"), column[1:])
    if source.endswith(".npy"):
        return read_single("--labels", Path(source))
    raise UserError(
        f"no labels {source!r}: it is neither an array of the input file "
        f"({', '.join(arrays)}) nor a .npy or .csv file",
        hint=did_you_mean(source, arrays)
        or "name an array of --input, or a file: labels.npy, labels.csv:COLUMN",
    )


def _column(path: Path, column: str) -> Array:
    """Return a column of a CSV file as numbers; raise UserError if it has none.

    `column` is a heading or an index, or empty for the last column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"cannot read labels from {str(path)!r}: {reason(error)}",
            hint="give rows of comma-separated values in UTF-8, or an .npy file",
        ) from None
    if not rows:
        raise UserError(
            f"cannot read labels from {str(path)!r}: it is empty", hint="give a row for each sample"
        )
    headings = [cell.strip() for cell in rows[0]]
    # If the first row contains numbers, there are no headings.
    body = rows if _number(headings[-1]) is not None else rows[1:]
    at = _column_index(path, column, headings)
    numbers = [_number(row[at]) if at < len(row) else None for row in body]
    for line, number in enumerate(numbers, 1 + len(rows) - len(body)):
        if number is None:
            raise UserError(
                f"row {line} of {str(path)!r} has no number in column {at}",
                hint=f"name the column of the labels: {path.name}:COLUMN",
            )
    return np.array(numbers)


def _column_index(path: Path, column: str, headings: list[str]) -> int:
    """Return the index of a column, given by heading or index; empty text means the last one."""
    if not column:
        return len(headings) - 1
    if column in headings:
        return headings.index(column)
    if column.isdecimal() and int(column) < len(headings):
        return int(column)
    raise UserError(
        f"{str(path)!r} has no column {column!r}, but {', '.join(headings)}",
        hint=did_you_mean(column, headings) or f"name one of them: {path.name}:{headings[0]}",
    )


def _number(cell: str) -> int | float | None:
    """Return a cell as a number; None if it is not one."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return None
