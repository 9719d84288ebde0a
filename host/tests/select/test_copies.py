"""Bytes that a copy reads, compared with NumPy's slicing and padding."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.select.context import NotOnEngine
from matloom.select.copies import CopiedAxis, copy_of_axes, copy_of_lines


def read(copy, tensor):
    """Return the bytes that a copy reads from a flat tensor, in order."""
    image_bytes = copy.in_rows * copy.in_row_bytes
    found = []
    for image, row, x, byte in np.ndindex(
        copy.images, copy.out_rows, copy.width, copy.position_bytes
    ):
        at_row = copy.first_row + row * copy.row_step
        at = copy.first_byte + x * copy.x_step + byte
        inside = 0 <= at_row < copy.in_rows and 0 <= at < copy.in_row_bytes
        place = image * image_bytes + at_row * copy.in_row_bytes + at
        found.append(tensor[place] if inside else copy.pad_value)
    return np.array(found)


def cut(length, random):
    """Return a random slice of an axis, in both notations."""
    step, first = int(random.integers(1, 4)), int(random.integers(length))
    size = int(random.integers(1, (length - 1 - first) // step + 2))
    return CopiedAxis(length=length, first=first, size=size, step=step if size > 1 else 1), slice(
        first, first + size * step, step
    )


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("config", ["nano", "reference"])
def test_slices(rank, config, seed):
    random = np.random.default_rng([seed, rank])
    fitting = 0
    for _ in range(40):
        shape = tuple(int(length) for length in random.integers(1, 7, rank))
        tensor = np.arange(np.prod(shape))
        chosen = set(random.integers(0, rank, 2).tolist())
        axes, slices = [], []
        for axis, length in enumerate(shape):
            full = CopiedAxis(length=length, first=0, size=length), slice(None)
            made = cut(length, random) if axis in chosen else full
            axes.append(made[0])
            slices.append(made[1])
        try:
            copy = copy_of_axes(axes, 0, PRESETS[config])
        except NotOnEngine:
            continue
        fitting += 1
        expected = tensor.reshape(shape)[tuple(slices)].ravel()
        np.testing.assert_array_equal(read(copy, tensor), expected)
    assert fitting > 30


def test_paddings(seed):
    random = np.random.default_rng(seed)
    for edges in ([(1, 2), (0, 0)], [(0, 0), (3, 1)], [(2, 0), (0, 2)]):
        for lead in (1, 3):
            shape, outer = (lead, 3, 4, 5), [(0, 0), *edges, (0, 0)]
            tensor = random.integers(0, 100, shape)
            axes = [
                CopiedAxis(length=length, first=-before, size=before + length + after)
                for length, (before, after) in zip(shape, outer, strict=True)
            ]
            copy = copy_of_axes(axes, -7, PRESETS["small"])
            expected = np.pad(tensor, outer, constant_values=-7).ravel()
            np.testing.assert_array_equal(read(copy, tensor.ravel()), expected)


def test_three_axes_do_not_fit():
    axes = [CopiedAxis(length=4, first=1, size=2, step=2) for _ in range(3)]
    with pytest.raises(NotOnEngine, match="two axes at once"):
        copy_of_axes(axes, 0, PRESETS["small"])


def test_many_rows_become_images():
    copy = copy_of_lines(3 * 4096, 5, PRESETS["reference"])
    assert copy.images * copy.in_rows == 3 * 4096
    assert copy.in_rows <= 4095
    assert (copy.width, copy.position_bytes) == (1, 5)
