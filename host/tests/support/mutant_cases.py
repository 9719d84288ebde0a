"""Functions of the scheduler to mutate, and the networks that judge the mutants."""

import dataclasses
import random
from collections.abc import Sequence

import numpy as np

from matloom import frontend
from matloom.arch.config import PRESETS, load_config
from matloom.compiler import CompileOptions
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Arithmetic,
    Axis,
    Conv2D,
    DepthwiseConv2D,
    Padding,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation
from matloom.verification.random_layers import random_layer
from support.mutants import Case, Mutant, mutants

#: Of the planner, the allocation, the footprints of tiles and instructions, and the emitter.
FUNCTIONS = {
    "matloom.schedule.memory.external": ("arena_places", "chunk_offsets"),
    "matloom.schedule.tiling.tiles": ("exec_fields",),
    "matloom.schedule.tiling.byte_ranges": ("cut_vector",),
    "matloom.schedule.tiling.cutting": (
        *("chunks", "_positions", "_repeat_for_stride", "cut_array", "_tile"),
    ),
    "matloom.schedule.tiling.sizes": ("Sizes.__init__",),
    "matloom.schedule.tiling.first_tiles": ("_outer_loop", "split_first_steps", "join_first_rows"),
    "matloom.select.exec_steps": ("limit_steps", "_ranges", "input_region", "_split_runs"),
    "matloom.schedule.tiling.array_ranges": ("array_input_range", "addend_range"),
    "matloom.schedule.tiling.array": ("ArrayTiling.first_weight_bytes", "ArrayTiling.panel_rows"),
    "matloom.schedule.tiling.vector": ("VectorTiling._range",),
    "matloom.schedule.memory.buffers": (
        *("tensor_buffers_of", "_last_read_slot", "Builder.add"),
        *("Builder._load_panel", "Builder._chunk_buffer", "Builder._add_input"),
    ),
    "matloom.schedule.memory.sharing": (
        *("lead_bytes", "_Sharing.share_elementwise", "_Sharing._share_buffer"),
    ),
    "matloom.schedule.memory.load_times": ("_move_after_stores",),
    "matloom.schedule.memory.placing": ("_Placing._requirements", "_Placing._neighbours", "_shift"),
    "matloom.schedule.memory.allocator": ("Allocator._gaps", "Allocator._candidates"),
    "matloom.schedule.memory.live_ranges": ("LiveRanges.add", "LiveRanges.overlapping"),
    "matloom.schedule.tiling.followers": ("_can_interleave",),
    "matloom.schedule.tiling.sequence": ("_interleave",),
    "matloom.schedule.commands.emit": (
        *("_Emitter._input", "_Emitter._emit_array_tile", "_Emitter._write", "_Emitter._post"),
    ),
    "matloom.schedule.commands.second_inputs": ("second_input",),
    "matloom.schedule.commands.chunk_addresses": ("chunk_addresses", "params_and_limit_addresses"),
    "matloom.schedule.commands.loads": ("LoadCommands.append",),
    "matloom.schedule.commands.accumulators": ("Accumulators.of",),
    "matloom.schedule.commands.tables": ("Tables._use",),
    "matloom.schedule.commands.vector_posts": (
        *("VectorPosts._source", "VectorPosts.append", "VectorPosts._vectors"),
    ),
    "matloom.schedule.commands.stores": (
        *("Stores._store_complete_bytes", "Stores._store_run", "Stores._store_part"),
    ),
    "matloom.select.layout.base": ("Grid.bytes_in",),
    "matloom.select.layout.dense": (
        *("DenseInput.loads", "Dense.byte", "Dense.writes", "staged_writes"),
    ),
    "matloom.select.layout.placed": ("Placed.byte", "Placed.complete_bytes", "Placed.for_producer"),
    "matloom.select.layout.space_to_depth": (
        *("SpaceToDepth.byte", "SpaceToDepth.writes", "PolyphaseWindow.fields"),
    ),
    "matloom.select.layout.row_bands": (
        *("RowBands.byte", "RowBands.writes", "RowBands.borders", "RowBands.copies"),
        *("BandedLoopNest.fields", "SeparateBands.byte"),
        *("JoinedBands.byte", "JoinedBands.copies"),
    ),
    "matloom.select.layout.banded_layers": ("slide_over_bands", "read_bands_one_by_one"),
    "matloom.select.weights": ("repeat_columns", "repeat_parameters"),
    "matloom.select.sliding": (
        *("SlidingWindow.fields", "SlidingWindow._skipped_rows", "SlidingWindow._skipped_columns"),
    ),
    "matloom.select.layout.row_folding": ("_boxes", "_spread_fields"),
    "matloom.select.row_folds": ("_interleaved_folding",),
    "matloom.arch.footprint": (
        *("_moved_rows", "_read_input", "_read_channels", "_read_part", "_clip_range"),
        "_post_channels",
    ),
    "matloom.schedule.commands.dependencies": ("DependencyTracker.append_fields",),
}

#: Functions as they were while they were wrong.
_OUTER_LOOP = '''
def _outer_loop(stage: ArrayStage) -> tuple[int, int]:
    """Return the iterations of the outermost loop that has several, and the steps of each."""
    loops = stage.loop_nest.fields((0, 1), (0, 1), 0)
    unit, outer = 1, loops["blocks"]
    for name, inside in (("kernel_cols", "blocks"), ("kernel_rows", "kernel_cols")):
        if loops[name] > 1:
            unit, outer = unit * loops[inside], loops[name]
    return outer, unit
'''

_NARROWED = '''
def limit_steps(
    fields: dict[str, int], first_step: int, end_step: int, array_rows: int
) -> dict[str, int]:
    """Return the fields of EXEC for some of its steps, one of `split_k_parts`."""
    by_row = fields["kernel_cols"] * fields["blocks"]
    by_column = fields["blocks"]
    count = end_step - first_step
    row, rest = divmod(first_step, by_row)
    column, block = divmod(rest, by_column)
    if count >= by_row:
        loops = (count // by_row, fields["kernel_cols"], fields["blocks"])
    elif count >= by_column:
        loops = (1, count // by_column, fields["blocks"])
    else:
        loops = (1, 1, count)
    return {
        **fields,
        **dict(zip(_LOOPS, loops, strict=True)),
        "first_row": fields["first_row"] + row * fields["kernel_row_step"],
        "first_byte": fields["first_byte"]
        + column * fields["kernel_col_step"]
        + block * array_rows,
    }
'''

_ARENA_PLACES = '''
def arena_places(
    segment: Segment, plan: Plan, config: Config, arena_start: int
) -> tuple[dict[str, Place], int]:
    """Give the tensors that the plan keeps in external memory a place in the arena."""
    space = Allocator(_ARENA_LIMIT, config, avoid_conflicts=False)
    places = dict(segment.sources)
    for name in sorted(plan.params.spilled, key=lambda item: (-segment.sizes[item], item)):
        if name in segment.sources or name in segment.results:
            continue
        uses = [
            index
            for index, stage in enumerate(segment.stages)
            if name == stage.output or name in stage.inputs
        ]
        offset = space.place(segment.sizes[name], min(uses), max(uses), high=False)
        assert offset is not None
        places[name] = Place(region=Region.ARENA, offset=arena_start + offset)
    return {**places, **segment.results}, arena_start + space.peak
'''

#: Defects that were found on networks in use: a tile's steps split within a loop, and places in
#: external memory that live from stage to stage, while tiles of stages take turns.
HISTORICAL = (
    Mutant(
        module="matloom.schedule.tiling.first_tiles",
        function="_outer_loop",
        rule="as it was",
        place=0,
        line="unit, outer = unit * loops[inside], loops[name]",
        texts=(
            ("matloom.schedule.tiling.first_tiles", "_outer_loop", _OUTER_LOOP),
            ("matloom.select.exec_steps", "limit_steps", _NARROWED),
        ),
    ),
    Mutant(
        module="matloom.schedule.memory.external",
        function="arena_places",
        rule="as it was",
        place=0,
        line="offset = space.place(segment.sizes[name], min(uses), max(uses), high=False)",
        texts=(("matloom.schedule.memory.external", "arena_places", _ARENA_PLACES),),
    ),
)

_SAME = Padding(top=1, bottom=1, left=1, right=1)
_QUANTISATION = Quantisation(scale=(0.05,), zero_point=(-3,))


class _Drawn(GraphBuilder):
    """A network of random constants."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__(name)
        self.rng = np.random.default_rng(0)
        self.image = self.input("image", shape, "int8", _QUANTISATION)

    def weights(self, shape: tuple[int, ...]) -> int:
        """Add weights; return their number."""
        data = self.rng.integers(-128, 128, shape, np.int8)
        return self.constant(data, Quantisation(scale=(0.01,), zero_point=(0,)))

    def convolution(self, given: int, channels: int, kernel: int = 1, stride: int = 1) -> int:
        """Add a convolution."""
        depth = self.tensors[given].shape[-1]
        attributes = Conv2D(
            stride=(stride, stride),
            padding=NO_PADDING if kernel == 1 else _SAME,
            activation=Activation.RELU,
        )
        filters = self.weights((channels, kernel, kernel, depth))
        return self.add(Op.CONV_2D, [given, filters], attributes)

    def depthwise(self, given: int, stride: int = 1) -> int:
        """Add a depthwise convolution."""
        depth = self.tensors[given].shape[-1]
        attributes = DepthwiseConv2D(stride=(stride, stride), padding=_SAME)
        filters = self.weights((1, 3, 3, depth))
        return self.add(Op.DEPTHWISE_CONV_2D, [given, filters], attributes)


def _residual() -> Graph:
    net = _Drawn("residual", (1, 12, 12, 8))
    last = net.image
    for _ in range(2):
        made = net.convolution(net.depthwise(last), 8)
        last = net.add(Op.ADD, [made, last], Arithmetic())
    return net.graph(last)


def _plain_residual(size: int, blocks: int) -> Graph:
    net = _Drawn("spilled", (1, size, size, 4))
    last = net.image
    for _ in range(blocks):
        made = net.convolution(net.convolution(last, 4, 3), 4, 3)
        last = net.add(Op.ADD, [last, made], Arithmetic())
    return net.graph(last)


def _strided() -> Graph:
    net = _Drawn("strided", (1, 9, 10, 3))
    first = net.convolution(net.image, 20, 3)
    return net.graph(net.depthwise(net.depthwise(first, 2)))


def _thin() -> Graph:
    net = _Drawn("thin", (1, 14, 11, 1))
    return net.graph(net.convolution(net.image, 6, 3, 2))


def _branches() -> Graph:
    net = _Drawn("branches", (1, 6, 5, 8))
    left, right = net.convolution(net.image, 7), net.convolution(net.image, 9, 3)
    swish = net.add(Op.HARD_SWISH, [right])
    return net.graph(net.add(Op.CONCATENATION, [left, swish], Axis(axis=3)))


def cases() -> list[Case]:
    """Return small networks that together use every part of the scheduler."""
    tiny = dataclasses.replace(PRESETS["nano"], spad_bytes=2048, acc_bytes=1024)
    small, reference = PRESETS["small"], PRESETS["reference"]
    planned, apart = CompileOptions(), CompileOptions(resident=False)
    found = [
        Case(name="digits", graph=frontend.load(NETWORK), config=small, options=planned),
        Case(name="residual", graph=_residual(), config=tiny, options=apart),
        Case(name="strided", graph=_strided(), config=reference, options=apart),
        Case(name="thin", graph=_thin(), config=reference, options=apart),
        Case(
            name="branches", graph=_branches(), config=load_config("small+tables=1"), options=apart
        ),
        Case(
            name="product",
            graph=product_graph(40, 96, 48),
            config=small,
            options=CompileOptions(resident=True),
        ),
    ]
    for number in (1, 2, 5, 7, 11, 13):
        graph, _inputs = random_layer(number, small)
        options = CompileOptions(tiling_seed=number)
        found.append(Case(name=f"layer {number}", graph=graph, config=small, options=options))
    graph, _inputs = random_layer(16, small)
    found.append(Case(name="layer 16", graph=graph, config=small, options=planned))
    for blocks, size, seed in ((3, 10, 5), (2, 12, 173)):
        found.append(
            Case(
                name=f"spilled {seed}",
                graph=_plain_residual(size, blocks),
                config=PRESETS["nano"],
                options=CompileOptions(tiling_seed=seed, resident=False),
                large=seed == 173,
            )
        )
    return found


def chosen(seed: int, of_each: int) -> list[Mutant]:
    """Return the historical mutants, then up to `of_each` of each function, in random order."""
    draw = random.Random(seed)
    found: list[Mutant] = []
    for module, functions in FUNCTIONS.items():
        for function in functions:
            every: Sequence[Mutant] = list(mutants(module, [function]))
            found += draw.sample(every, min(of_each, len(every)))
    draw.shuffle(found)
    return [*HISTORICAL, *found]
