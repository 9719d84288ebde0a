"""Bytes that are stored after the last arithmetic."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Opcode
from matloom.compiler import compile_network
from matloom.data.matrix_products import product_graph
from matloom.schedule.options import CompileOptions
from support.instructions import instructions

CONFIG = PRESETS["small"]


def _stores(program):
    return [item.values for item in instructions(program, Opcode.STORE)]


@pytest.mark.fast_cases(11)
@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(40, 24, 70), (100, 64, 33), (1, 80, 640), (64, 8, 8)])
def test_each_byte_of_a_result_is_stored_once(shape, seed):
    program = compile_network(product_graph(*shape), CONFIG, CompileOptions(tiling_seed=seed))
    rows, _inner, columns = shape
    written = np.zeros(rows * columns, int)
    for store in _stores(program):
        for plane in range(store["planes"]):
            for row in range(store["rows"]):
                first = store["dram_offset"] + row * store["dram_row_step"]
                first += plane * store["dram_plane_step"]
                written[first : first + store["row_bytes"]] += 1
    assert (written == 1).all()


def test_little_is_stored_after_the_last_blocks():
    """Only parts of rows; the rest has been stored before."""
    *_, before, last = _stores(compile_network(product_graph(256, 64, 128), CONFIG))
    assert last["rows"] * last["row_bytes"] <= 2 * CONFIG.columns * before["rows"]
    assert last["dram_row_step"] == 128
