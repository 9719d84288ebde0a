"""Each pass by example: the lines that it removes from a graph's text, and those it adds."""

import numpy as np
import pytest

from matloom.ir.attributes import (
    Arithmetic,
    Axis,
    BatchMatmul,
    Conv2D,
    FullyConnected,
    Pad,
    Padding,
    Pool2D,
    Slice,
    Transpose,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.text import to_text
from matloom.passes import PASSES
from matloom.passes.clip_windows import clip_windows
from matloom.passes.combine_moves import combine_moves
from matloom.passes.drop_identities import drop_identities
from matloom.passes.drop_unused import drop_unused
from matloom.passes.fold_constants import fold_constants
from matloom.passes.fold_selections import fold_selections
from matloom.passes.fold_transposes import fold_transposes
from matloom.passes.fuse_padding import fuse_padding
from matloom.passes.lower_precision import lower_precision, widen_weights
from matloom.passes.merge_equal import merge_equal
from matloom.passes.narrow_weights import narrow_weights
from matloom.passes.order_branches import order_branches
from matloom.passes.slice_gathers import slice_gathers
from support.text_changes import changes

SCALE, WEIGHT_SCALE = (
    Quantisation(scale=(scale,), zero_point=(zero,)) for scale, zero in ((0.5, 3), (0.01, 0))
)
DENSE = FullyConnected()


class Network(GraphBuilder):
    """A graph with an input `x`: an int8 image, or a float32 vector."""

    def image(self):
        return self.input("x", (1, 4, 4, 2), "int8", SCALE)

    def vector(self):
        return self.input("x", (1, 2), "float32")

    def convolution(self, source, kernel=1, pad=0):
        weights = self.constant(np.ones((3, kernel, kernel, 2), np.int8), WEIGHT_SCALE)
        padding = Padding(top=pad, bottom=pad, left=pad, right=pad)
        attributes = Conv2D(padding=padding)
        return self.add(Op.CONV_2D, [source, weights], attributes)

    def padded(self, source):
        pad = Pad(before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=None)
        return self.add(Op.PAD, [source], pad)

    def dense(self, source, weights):
        return self.add(Op.FULLY_CONNECTED, [source, weights], DENSE)


def of_fuse_padding():
    network = Network()
    return network.graph(network.convolution(network.padded(network.image()), 3))


def of_clip_windows():
    network = Network()
    window = Pool2D(window=(11, 3), padding=Padding(top=5, bottom=5))
    return network.graph(network.add(Op.MAX_POOL_2D, [network.image()], window))


def of_merge_equal():
    network = Network()
    padded = [network.padded(image) for image in [network.image()] * 2]
    return network.graph(network.add(Op.ADD, padded, Arithmetic()))


def of_drop_unused():
    network = Network()
    image = network.image()
    network.padded(image)
    return network.graph(network.convolution(image))


def of_drop_identities():
    network = Network()
    return network.graph(network.add(Op.QUANTIZE, [network.image()]))


def of_combine_moves():
    """Return two planes in reverse order."""
    network = Network()
    planes = network.add(Op.TRANSPOSE, [network.image()], Transpose(permutation=(0, 3, 1, 2)))
    whole = Slice(begin=(0, 1, 0, 0), size=(1, 2, 4, 4), step=(1, -1, 1, 1))
    mirrored = network.add(Op.STRIDED_SLICE, [planes], whole)
    back = Transpose(permutation=(0, 2, 3, 1))
    return network.graph(network.convolution(network.add(Op.TRANSPOSE, [mirrored], back)))


def of_fold_selections():
    return drop_unused(combine_moves(of_combine_moves()))


def of_fold_constants():
    network = Network()
    vector, half = network.vector(), network.constant(np.ones((3, 2), np.float16))
    weights = network.add(Op.DEQUANTIZE, [half], dtype="float32")
    return network.graph(network.dense(vector, weights))


def of_order_branches():
    network = Network()
    image = network.image()
    heavy, light = network.convolution(image, 3, 1), network.convolution(image)
    addition = Arithmetic()
    return network.graph(network.add(Op.ADD, [heavy, light], addition))


def of_narrow_weights():
    network = Network()
    return network.graph(network.convolution(network.image()))


def of_lower_precision():
    network = Network()
    first = network.dense(network.vector(), network.constant(np.ones((3, 2), np.float32)))
    return network.graph(network.dense(first, network.constant(np.ones((4, 3), np.float32))))


def of_widen_weights():
    network = Network()
    vector, weights = network.vector(), network.constant(np.ones((3, 2), np.int8), WEIGHT_SCALE)
    return network.graph(network.dense(vector, weights))


def of_fold_transposes():
    network = Network()
    queries, keys = (network.input(name, (1, 4, 5, 2), "int8", SCALE) for name in "qk")
    heads = network.add(Op.TRANSPOSE, [queries], Transpose(permutation=(0, 2, 1, 3)))
    columns = network.add(Op.TRANSPOSE, [keys], Transpose(permutation=(0, 2, 3, 1)))
    product = BatchMatmul(adj_x=False, adj_y=False)
    return network.graph(network.add(Op.BATCH_MATMUL, [heads, columns], product))


def of_slice_gathers():
    network = Network()
    image, rows = network.image(), network.constant(np.array([3, 1], np.int32))
    return network.graph(network.add(Op.GATHER, [image, rows], Axis(axis=1)))


#: By pass: the graph, the pass, and what it changes.
EXAMPLES = {
    # Two rows at a distance of -2.
    "slice_gathers": (
        of_slice_gathers,
        slice_gathers,
        [
            "- 0: %2:int8[1x2x4x2] = GATHER(%0:int8[1x4x4x2], #1:int32[2]) axis=1",
            (
                "+ 0: %2:int8[1x2x4x2] = STRIDED_SLICE(%0:int8[1x4x4x2]) begin=0x3x0x0"
                " size=1x2x4x2 step=1x-2x1x1 dropped="
            ),
        ],
    ),
    # The convolution pads for itself; the PAD is left, for nobody.
    "fuse_padding": (
        of_fuse_padding,
        fuse_padding,
        [
            "- 1: %3:int8[1x4x4x3] = CONV_2D(%1:int8[1x6x6x2], #2:int8[3x3x3x2]) padding=0x0x0x0",
            "+ 1: %3:int8[1x4x4x3] = CONV_2D(%0:int8[1x4x4x2], #2:int8[3x3x3x2]) padding=1x1x1x1",
        ],
    ),
    # Only the middle rows of the window meet the image.
    "clip_windows": (
        of_clip_windows,
        clip_windows,
        [
            ("- 0: %1:int8[1x4x2x2] = MAX_POOL_2D(%0:int8[1x4x4x2]) window=11x3 padding=5x5x0x0"),
            "+ 0: %1:int8[1x4x2x2] = MAX_POOL_2D(%0:int8[1x4x4x2]) window=7x3 padding=3x3x0x0",
        ],
    ),
    # Both operands of the sum are the same.
    "merge_equal": (
        of_merge_equal,
        merge_equal,
        [
            "- 1: %2:int8[1x6x6x2] = PAD(%0:int8[1x4x4x2]) before=0x1x1x0 after=0x1x1x0 value=None",
            "- 2: %3:int8[1x6x6x2] = ADD(%1:int8[1x6x6x2], %2:int8[1x6x6x2])",
            "+ 2: %3:int8[1x6x6x2] = ADD(%1:int8[1x6x6x2], %1:int8[1x6x6x2])",
        ],
    ),
    # Bytes of one scale as the same bytes.
    "drop_identities": (
        of_drop_identities,
        drop_identities,
        [
            "- 0: %1:int8[1x4x4x2] = QUANTIZE(%0:int8[1x4x4x2])",
            "+ 0: %1:int8[1x4x4x2] = RESHAPE(%0:int8[1x4x4x2])",
        ],
    ),
    # Keys of each head as rows; their columns are left, for nobody.
    "fold_transposes": (
        of_fold_transposes,
        fold_transposes,
        [
            (
                "- 2: %4:int8[1x5x4x4] = BATCH_MATMUL(%2:int8[1x5x4x2], %3:int8[1x5x2x4]) "
                "adj_x=False adj_y=False"
            ),
            "+ 1: %5:int8[1x5x4x2] = TRANSPOSE(%1:int8[1x4x5x2]) permutation=0x2x1x3",
            (
                "+ 2: %4:int8[1x5x4x4] = BATCH_MATMUL(%2:int8[1x5x4x2], %5:int8[1x5x4x2]) "
                "adj_x=False adj_y=True"
            ),
        ],
    ),
    # The last move of a chain becomes a selection of channels; the others are left, for nobody.
    "combine_moves": (
        of_combine_moves,
        combine_moves,
        [
            "- 2: %3:int8[1x4x4x2] = TRANSPOSE(%2:int8[1x2x4x4]) permutation=0x2x3x1",
            "+ 2: %3:int8[1x4x4x2] = CONV_2D(%0:int8[1x4x4x2], #6:int8[2x1x1x2]) padding=0x0x0x0",
        ],
    ),
    # The selection becomes part of new weights.
    "fold_selections": (
        of_fold_selections,
        fold_selections,
        [
            "- 2: %3:int8[1x4x4x2] = CONV_2D(%0:int8[1x4x4x2], #6:int8[2x1x1x2]) padding=0x0x0x0",
            "- 3: %5:int8[1x4x4x3] = CONV_2D(%3:int8[1x4x4x2], #4:int8[3x1x1x2]) padding=0x0x0x0",
            "+ 3: %5:int8[1x4x4x3] = CONV_2D(%0:int8[1x4x4x2], #7:int8[3x1x1x2]) padding=0x0x0x0",
        ],
    ),
    "drop_unused": (
        of_drop_unused,
        drop_unused,
        [
            "- 0: %1:int8[1x6x6x2] = PAD(%0:int8[1x4x4x2]) before=0x1x1x0 after=0x1x1x0 value=None",
        ],
    ),
    # Weights kept as float16 become a constant of float32.
    "fold_constants": (
        of_fold_constants,
        fold_constants,
        [
            "- 0: %2:float32[3x2] = DEQUANTIZE(#1:float16[3x2])",
            "- 1: %3:float32[1x3] = FULLY_CONNECTED(%0:float32[1x2], %2:float32[3x2])",
            "+ 1: %3:float32[1x3] = FULLY_CONNECTED(%0:float32[1x2], #2:float32[3x2])",
        ],
    ),
    # The light branch comes first.
    "order_branches": (
        of_order_branches,
        order_branches,
        [
            "+ 1: %4:int8[1x4x4x3] = CONV_2D(%0:int8[1x4x4x2], #3:int8[3x1x1x2]) padding=0x0x0x0",
            "- 1: %4:int8[1x4x4x3] = CONV_2D(%0:int8[1x4x4x2], #3:int8[3x1x1x2]) padding=0x0x0x0",
        ],
    ),
    # New weights, of four bits, and the mode that takes them.
    "narrow_weights": (
        of_narrow_weights,
        lambda graph: narrow_weights(graph, graph.outputs),
        [
            "- 0: %2:int8[1x4x4x3] = CONV_2D(%0:int8[1x4x4x2], #1:int8[3x1x1x2]) padding=0x0x0x0",
            (
                "+ 0: %2:int8[1x4x4x3] = CONV_2D(%0:int8[1x4x4x2], #3:int8[3x1x1x2])"
                " padding=0x0x0x0 mode=i8xi4"
            ),
        ],
    ),
    # The input is rounded by a QUANTIZE, and what lies between the layers is made rounded.
    "lower_precision": (
        of_lower_precision,
        lambda graph: lower_precision(graph, "bf16"),
        [
            "- 0: %2:float32[1x3] = FULLY_CONNECTED(%0:float32[1x2], #1:float32[3x2])",
            "- 1: %4:float32[1x4] = FULLY_CONNECTED(%2:float32[1x3], #3:float32[4x3])",
            "+ 0: %5:uint16[1x2] = QUANTIZE(%0:float32[1x2])",
            "+ 0: %2:uint16[1x3] = FULLY_CONNECTED(%5:uint16[1x2], #1:float32[3x2]) mode=bf16",
            "+ 1: %4:float32[1x4] = FULLY_CONNECTED(%2:uint16[1x3], #3:float32[4x3]) mode=bf16",
        ],
    ),
    "widen_weights": (
        of_widen_weights,
        widen_weights,
        [
            "- 0: %2:float32[1x3] = FULLY_CONNECTED(%0:float32[1x2], #1:int8[3x2])",
            "+ 0: %2:float32[1x3] = FULLY_CONNECTED(%0:float32[1x2], #1:float32[3x2])",
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pass_changes_these_lines(name):
    make, change, expected = EXAMPLES[name]
    graph = make()
    assert changes(to_text(graph).splitlines(), to_text(change(graph)).splitlines()) == expected


def test_each_pass_of_the_list_has_an_example():
    # Tables and chains of joins are long: files of their own have examples.
    long = {"combine_transposes", "gather_channels", "tabulate"}
    assert {change.__name__ for change in PASSES} <= {*EXAMPLES, *long}
