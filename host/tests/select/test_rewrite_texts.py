"""Each stage pass by example: the lines that it removes from a run's text, and those it adds."""

from dataclasses import replace

import numpy as np

from matloom.arch.config import PRESETS, load_config
from matloom.arch.machine import Machine
from matloom.ir.attributes import (
    Arithmetic,
    Axis,
    BatchMatmul,
    Conv2D,
    FullyConnected,
    Pad,
    Pool2D,
    Slice,
    Softmax,
    Transpose,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.names import unique_names
from matloom.select.partition import partition
from matloom.select.rewrites.channel_tables import tabulate_channel_functions
from matloom.select.rewrites.copy_tables import fuse_tables_into_copies
from matloom.select.rewrites.elide_copies import elide_copies, elide_panel_copies
from matloom.select.rewrites.fuse_tables import fuse_tables
from matloom.select.rewrites.image_planes import interleave_image_planes
from matloom.select.rewrites.padded_sums import drop_addend_padding
from matloom.select.rewrites.panels_ahead import hoist_panel_copies
from matloom.select.rewrites.pooled_results import fuse_max_pooling
from matloom.select.rewrites.read_parts import read_slices_in_place
from matloom.select.rewrites.rescaled_maxima import fuse_rescaling_into_maxima
from matloom.select.rewrites.result_sums import fuse_additions
from matloom.select.rewrites.scaled_maxima import fuse_scaled_maxima
from matloom.select.rewrites.stage_passes import STAGE_PASSES
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.rewrites.store_slices import store_slices
from matloom.select.text import run_lines
from support.text_changes import changes

SCALE, WEIGHT_SCALE, LOGISTIC = (
    Quantisation(scale=(scale,), zero_point=(zero,))
    for scale, zero in ((0.5, 3), (0.01, 0), (1 / 256, -128))
)
REFERENCE = Machine(config=PRESETS["reference"])


class Network(GraphBuilder):
    """1x1 convolutions; the reference array has 16 columns."""

    def convolution(self, source, channels, name):
        depth = self.tensors[source].shape[3]
        weights = self.constant(np.ones((channels, 1, 1, depth), np.int8), WEIGHT_SCALE)
        attributes = Conv2D()
        return self.add(Op.CONV_2D, [source, weights], attributes, name=name)


def staged(graph, placed=(), config=REFERENCE.config):
    """Return the only run of a graph; tensors of `placed` are written into larger tensors."""
    names = unique_names(graph)
    parts = partition(graph, replace(REFERENCE, config=config), names, {})
    (run,) = parts.runs
    by_number = {number: names[root] for number, root in parts.roots.items()}
    return StagedRun(graph=graph, config=config, run=run, names=by_number, placed=frozenset(placed))


def changed(change, before):
    lines = (run_lines(each.run, each.names) for each in (before, change(before)))
    return changes(*lines)


def joined(channels):
    """Return a run that concatenates two convolutions with as many channels as their input."""
    network = Network()
    image = network.input("x", (1, 4, 4, channels), "int8", SCALE)
    parts = [network.convolution(image, channels, name) for name in ("left", "right")]
    return staged(network.graph(network.add(Op.CONCATENATION, parts, Axis(axis=3), name="y")))


def test_a_lookup_becomes_part_of_the_stage_before():
    network = Network()
    image = network.input("x", (1, 4, 4, 2), "int8", SCALE)
    sums = network.convolution(image, 16, "sums")
    run = staged(network.graph(network.add(Op.LOGISTIC, [sums], quantisation=LOGISTIC, name="y")))
    nest = "LoopNest of 1 steps, 1 output blocks, 1 x 4 x 4 x 16 bytes, i8xi8"
    assert changed(fuse_tables, run) == [
        f"- CONV_2D_0: sums = x; {nest}",
        "- 1 LOGISTIC y",
        "- LOGISTIC_1: y = sums; 1 POSTs over 256 bytes, looked up in a table",
        f"+ CONV_2D_0: y = x; {nest}, looked up in a table",
        "+ 1 LOGISTIC y: nothing",
    ]


def test_a_copy_looks_up_what_it_copies():
    """The rescaled bytes of an input are part of what is joined."""
    network, other = Network(), Quantisation(scale=(0.25,), zero_point=(3,))
    image = network.input("x", (1, 4, 4, 16), "int8", SCALE)
    second = network.input("z", (1, 4, 4, 16), "int8", other)
    finer = network.add(Op.QUANTIZE, [image], quantisation=other, name="finer")
    joined = network.add(Op.CONCATENATION, [finer, second], Axis(axis=1), name="y")
    run = staged(network.graph(joined))
    copy = "LoopNest of 1 steps, 1 output blocks, 1 x 1 x 16 x 16 bytes, i8xi8"
    part = "makes part of a larger tensor from byte 0 on"
    assert changed(fuse_tables_into_copies, run) == [
        "- 0 QUANTIZE finer",
        "- QUANTIZE_0: finer = x; 1 POSTs over 256 bytes, looked up in a table",
        "+ 0 QUANTIZE finer: nothing",
        f"- CONCATENATION_1: y = finer; {copy}, {part}",
        f"+ CONCATENATION_1: y = x; {copy}, {part}, looked up in a table",
    ]


def test_a_maximum_compares_what_a_quantize_reads():
    """Two operators read it, so its producer cannot look up the bytes."""
    network, other = Network(), Quantisation(scale=(0.25,), zero_point=(3,))
    image = network.input("x", (1, 4, 4, 16), "int8", SCALE)
    second = network.input("z", (1, 4, 4, 16), "int8", other)
    finer = network.add(Op.QUANTIZE, [image], quantisation=other, name="finer")
    both = network.add(Op.MAXIMUM, [finer, second], name="y")
    lines = changed(
        fuse_rescaling_into_maxima, staged(network.graph(both, network.add(Op.RELU, [image])))
    )
    assert "+ 0 QUANTIZE finer: nothing" in lines


def test_a_prelu_written_as_a_product_and_a_maximum_is_one_stage():
    network = Network()
    image = network.input("x", (1, 4, 4, 16), "int8", SCALE)
    slopes = network.constant(np.full((1, 1, 16), -3, np.int8), WEIGHT_SCALE)
    attributes = Arithmetic()
    product = network.add(Op.MUL, [image, slopes], attributes, quantisation=SCALE, name="product")
    run = staged(network.graph(network.add(Op.MAXIMUM, [product, image], name="y")))
    shape = "1 output blocks, 1 x 4 x 4 x 16 bytes, i8xi8"
    lines = changed(fuse_scaled_maxima, run)
    assert [line for line in lines if line.startswith("+")] == [
        "+ 0 MUL product: nothing",
        f"+ MAXIMUM_1: y = x; LoopNest of 1 steps, {shape}, limited by its input",
    ]


def test_a_prelu_is_a_lookup_of_its_own_until_a_stage_takes_it():
    network = Network()
    image = network.input("x", (1, 24, 24, 16), "int8", SCALE)
    made = network.convolution(image, 16, "made")
    slopes = network.constant(np.full((1, 1, 16), -3, np.int8), WEIGHT_SCALE)
    slopes_of_one = network.tensors[slopes].data
    slopes_of_one[..., 0] = 5
    y = network.add(Op.PRELU, [made, slopes], quantisation=SCALE, name="y")
    config = load_config("reference+channel_tables=1")
    run = staged(network.graph(y), config=config)
    lines = changed(tabulate_channel_functions, run)
    assert [line for line in lines if line.startswith("+")] == [
        "+ PRELU_1: y = made; 1 POSTs over 9216 bytes, looked up in a table"
    ]
    lines = changed(fuse_tables, tabulate_channel_functions(run))
    assert "+ 1 PRELU y: nothing" in lines


def test_an_addition_reads_what_a_pad_would_extend():
    network = Network()
    image = network.input("x", (1, 4, 4, 8), "int8", SCALE)
    wide = network.convolution(image, 16, "wide")
    ends = Pad(before=(0,) * 4, after=(0, 0, 0, 8), value=None)
    padded = network.add(Op.PAD, [image], ends, quantisation=SCALE, name="padded")
    attributes = Arithmetic()
    both = network.add(Op.ADD, [wide, padded], attributes, quantisation=SCALE, name="y")
    lines = changed(drop_addend_padding, staged(network.graph(both)))
    assert [line for line in lines if line.startswith("+")] == [
        "+ 1 PAD padded: nothing",
        "+ ADD_2: y = wide, x; 3 POSTs over 256 bytes",
    ]


def test_loads_interleave_the_planes_of_an_image():
    network = Network()
    image = network.input("x", (1, 3, 4, 4), "int8", SCALE)
    order = Transpose(permutation=(0, 2, 3, 1))
    turned = network.add(Op.TRANSPOSE, [image], order, quantisation=SCALE, name="turned")
    run = staged(network.graph(network.convolution(turned, 16, "y")))
    nest = "LoopNest of 1 steps, 1 output blocks"
    convolution = f"{nest}, 1 x 4 x 4 x 16 bytes, i8xi8"
    copied = "makes part of a larger tensor from byte 0 on"
    assert changed(interleave_image_planes, run) == [
        "- 0 TRANSPOSE turned",
        f"- TRANSPOSE_0: turned = x; {nest}, 1 x 3 x 16 x 1 bytes, i8xi8, {copied}",
        "+ 0 TRANSPOSE turned: nothing",
        f"- CONV_2D_1: y = turned; {convolution}",
        f"+ CONV_2D_1: y = x | planes for CONV_2D_1; {convolution}, reads 3 planes as channels",
    ]


def test_convolutions_write_their_parts_of_a_joined_tensor():
    nest = "LoopNest of 1 steps, 1 output blocks"
    convolution, copy = f"{nest}, 1 x 4 x 4 x 16 bytes, i8xi8", f"{nest}, 1 x 16 x 1 x 16 bytes"
    left, right = (f"makes part of a larger tensor from byte {first} on" for first in (0, 16))
    assert changed(elide_copies, joined(16)) == [
        f"- CONV_2D_0: left = x; {convolution}",
        f"+ CONV_2D_0: y = x; {convolution}, {left}",
        f"- CONV_2D_1: right = x; {convolution}",
        "- 2 CONCATENATION y",
        f"- CONCATENATION_2: y = left; {copy}, i8xi8, {left}",
        f"- CONCATENATION_2: y = right; {copy}, i8xi8, {right}",
        f"+ CONV_2D_1: y = x; {convolution}, {right}",
        "+ 2 CONCATENATION y: nothing",
    ]


def test_two_positions_in_one_column_block_are_copied():
    """Two positions of 8 channels share the columns; POST cannot separate them."""
    run = joined(8)
    assert elide_copies(run) is run


def test_a_variable_is_stored_out_of_the_tensor_that_holds_it():
    network = Network()
    sample = network.input("x", (1, 1, 1, 4), "int8", SCALE)
    state = network.variable("state", np.zeros((1, 2, 1, 4), np.int8), SCALE)
    window = network.add(Op.CONCATENATION, [state, sample], Axis(axis=1), name="window")
    part = Slice(begin=(0, 1, 0, 0), size=(1, 2, 1, 4), step=(1, 1, 1, 1), dropped=())
    last = network.add(Op.STRIDED_SLICE, [window], part, name="last")
    result = network.convolution(window, 4, "y")
    network.assign(state, last)
    run = staged(network.graph(result), [last])
    nest = "LoopNest of 1 steps, 1 output blocks, 1 x 1 x 1 x 8 bytes, i8xi8"
    assert changed(store_slices, run) == [
        "- 1 STRIDED_SLICE last",
        f"- STRIDED_SLICE_1: last = window; {nest}",
        "+ 1 STRIDED_SLICE last: nothing",
    ]
    # The last two of three samples of four bytes.
    assert store_slices(run).views == {"window": ("last", 4, 12)}


def test_a_dense_layer_writes_the_weights_of_a_product():
    network = Network()
    scale = Quantisation(scale=(0.02,), zero_point=(0,))
    tokens = network.input("tokens", (1, 16, 8), "int8", scale)
    weights = network.constant(np.ones((16, 8), np.int8), scale)
    dense = FullyConnected(keep_num_dims=True)
    values = network.add(
        Op.FULLY_CONNECTED, [tokens, weights], dense, quantisation=scale, name="values"
    )
    scores = network.input("scores", (1, 16, 16), "int8", scale)
    plain = BatchMatmul(adj_x=False, adj_y=False)
    mixed = network.add(Op.BATCH_MATMUL, [scores, values], plain, quantisation=scale, name="mixed")
    layer = "LoopNest of 1 steps, 1 output blocks, 1 x 16 x 1 x 16 bytes, i8xi8"
    copied = "makes part of a larger tensor from byte 0 on"
    assert changed(elide_panel_copies, staged(network.graph(mixed))) == [
        f"- FULLY_CONNECTED_0: values = tokens; {layer}",
        f"+ FULLY_CONNECTED_0: mixed | weights 0 = tokens; {layer}, makes panels of weights",
        f"- BATCH_MATMUL_1: mixed | weights 0 = values; {layer}, {copied}",
    ]


def test_post_writes_maxima_of_what_a_convolution_makes():
    network = Network()
    image = network.input("x", (1, 5, 4, 16), "int8", SCALE)
    wide = network.convolution(image, 32, "wide")
    pool = Pool2D(window=(2, 2), stride=(2, 2))
    made = network.add(Op.MAX_POOL_2D, [wide], pool, quantisation=SCALE, name="y")
    run = staged(network.graph(made), config=replace(REFERENCE.config, pooling=1))
    lines = changed(fuse_max_pooling, run)
    made = "1 x 2 x 2 x 32 bytes, i8xi8, maxima of 4 sums"
    assert [line for line in lines if line.startswith("+")] == [
        f"+ CONV_2D_0: y = x; PooledLoops of 1 steps, 2 output blocks, {made}",
        "+ 1 MAX_POOL_2D y: nothing",
    ]


def test_post_adds_another_tensor_to_the_results_of_a_layer():
    network = Network()
    image = network.input("x", (1, 2, 4, 16), "int8", SCALE)
    first = network.convolution(image, 16, "first")
    third = network.convolution(network.convolution(first, 16, "second"), 16, "third")
    made = network.add(Op.ADD, [third, first], Arithmetic(), quantisation=SCALE, name="y")
    lines = changed(fuse_additions, staged(network.graph(made)))
    made = "1 x 2 x 4 x 16 bytes, i8xi8, looked up in a table"
    assert [line for line in lines if line.startswith("+")] == [
        "+ 2 CONV_2D third: nothing",
        f"+ CONV_2D_2: y = second, first; LoopNest of 1 steps, 1 output blocks, {made}",
    ]


def test_post_reads_a_part_of_a_tensor_where_it_lies():
    network = Network()
    image = network.input("x", (1, 2, 4, 16), "int8", SCALE)
    wide = network.convolution(image, 16, "wide")
    attributes = Slice(begin=(0, 1, 0, 0), size=(1, 1, 4, 16), step=(1, 1, 1, 1))
    part = network.add(Op.SLICE, [wide], attributes, quantisation=SCALE, name="part")
    made = network.add(Op.RELU6, [part], quantisation=SCALE, name="y")
    lines = changed(read_slices_in_place, staged(network.graph(made)))
    assert [line for line in lines if line.startswith("+")] == [
        "+ 1 SLICE part: nothing",
        "+ RELU6_2: y = wide; 1 POSTs over 64 bytes, wide from byte 64 on",
    ]


def test_values_become_panels_before_scores():
    network = Network()
    scale = Quantisation(scale=(0.02,), zero_point=(0,))
    tensors = [network.input(name, (1, 16, 16), "int8", scale) for name in "qkv"]
    plain = BatchMatmul(adj_x=False, adj_y=False)
    scores = network.add(Op.BATCH_MATMUL, tensors[:2], plain, quantisation=scale, name="scores")
    shares = network.add(
        Op.SOFTMAX, [scores], Softmax(beta=1.0), quantisation=LOGISTIC, name="shares"
    )
    mixed = network.add(
        Op.BATCH_MATMUL, [shares, tensors[2]], plain, quantisation=scale, name="mixed"
    )
    run = staged(network.graph(mixed), config=replace(REFERENCE.config, softmax=1, zero_points=1))
    moved = [
        [(stage.nodes, stage.output) for stage in group] for group in hoist_panel_copies(run).stages
    ]
    assert moved == [
        [((2,), "mixed | weights 0"), ((0,), "scores | weights 0"), ((0,), "scores")],
        [((1,), "shares")],
        [((2,), "mixed")],
    ]


def test_each_stage_pass_has_an_example():
    passes = {
        tabulate_channel_functions,
        fuse_scaled_maxima,
        fuse_rescaling_into_maxima,
        drop_addend_padding,
        interleave_image_planes,
        fuse_tables,
        fuse_tables_into_copies,
        fuse_max_pooling,
        fuse_additions,
        read_slices_in_place,
        elide_copies,
        elide_panel_copies,
        hoist_panel_copies,
        store_slices,
    }
    assert set(STAGE_PASSES) == passes
