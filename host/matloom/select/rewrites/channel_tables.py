"""Replaces per-channel functions of a byte, such as PRELU, by lookups in a table per channel."""

from matloom.arch.config import Config
from matloom.select.byte_posts import requantise_posts
from matloom.select.channel_functions import ChannelFunction, channel_function, table_blocks
from matloom.select.context import SAME_SCALE, tile_unit
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.stage import Stage, VectorStage


def tabulate_channel_functions(staged: StagedRun) -> StagedRun:
    """Return a run in which table lookups compute functions of one byte that differ by channel.

    `fuse_tables` makes them part of the stage that makes the byte, where this is possible.
    """
    if not staged.config.has_channel_tables:
        return staged
    graph, nodes = staged.graph, staged.run.nodes
    producers = {node.output: node for node in nodes if len(node.outputs) == 1}
    outside = {*graph.leaving, *staged.run.produced, *staged.placed}
    private = frozenset(number for number in producers if number not in outside)
    places = {number: at for at, node in enumerate(nodes) for number in node.outputs}
    groups: list[tuple[Stage, ...]] = list(staged.stages)
    joined: set[int] = set()
    for node in reversed(nodes):
        if not joined.isdisjoint(node.outputs):
            continue
        found = channel_function(graph, node, producers, private)
        if found is None or not _saves_cycles(staged, found, groups, places):
            continue
        made = [each.output for each in found.nodes]
        joined.update(made)
        for each in made:
            groups[places[each]] = ()
        groups[places[node.output]] = (_table_stage(staged, found),)
    return staged.with_stages(groups) if joined else staged


def _saves_cycles(
    staged: StagedRun,
    function: ChannelFunction,
    groups: list[tuple[Stage, ...]],
    index_of: dict[int, int],
) -> bool:
    """Return whether lookups take POST fewer cycles than the stages that they replace.

    Stages that are pure lookups are not counted, because `fuse_tables` can remove them in any case.
    A table is filled for each block of channels, and again for each further tile, except that the
    last block's table stays for the next tile.
    """
    config, size = staged.config, staged.graph.tensors[function.source].size
    channels, columns = len(function.table), config.columns
    if not function.differs or (channels % columns and columns % channels):
        return False
    if size % max(channels, columns):
        return False
    vectors, blocks = size // columns, max(1, channels // columns)
    replaced = (stage for node in function.nodes for stage in groups[index_of[node.output]])
    passes = sum(stage.post_passes for stage in replaced if not stage.is_lookup_only)
    passes -= not _can_fuse_into_producer(staged, function, groups)
    tiles = -(-vectors // (blocks * (config.acc_entries // 2)))
    fills = 1 + tiles * (blocks - 1)
    return passes * vectors > fills * fill_cycles(config) + _load_cycles(blocks, config)


def _can_fuse_into_producer(
    staged: StagedRun, function: ChannelFunction, groups: list[tuple[Stage, ...]]
) -> bool:
    """Return whether the stage that makes a function's input can look its results up, too."""
    graph, name = staged.graph, staged.names[function.source]
    inside = {node.index for node in function.nodes}
    alone = all(graph.nodes[at].index in inside for at in graph.consumers[function.source])
    producers = [stage for group in groups for stage in group if stage.output == name]
    blocks = max(1, len(function.table) // staged.config.columns)
    if not alone or name in staged.kept or len(producers) != 1:
        return False
    return producers[0].looks_up_channels(blocks, staged.config.columns)


def fill_cycles(config: Config) -> int:
    """Return the cycles in which POST fills the lookup tables of all array columns."""
    return config.table_rows * config.columns


def _load_cycles(blocks: int, config: Config) -> int:
    """Return the cycles in which the bus loads the lookup tables of some blocks of channels."""
    return blocks * config.columns * 256 // config.bus_bytes


def _table_stage(staged: StagedRun, function: ChannelFunction) -> VectorStage:
    """Return the stage that computes a function by lookups in its tables."""
    graph, last = staged.graph, function.nodes[-1]
    output = graph.tensors[last.output]
    return VectorStage(
        name=f"{last.op}_{last.index}",
        nodes=tuple(node.index for node in function.nodes),
        inputs=(staged.names[function.source],),
        output=staged.names[last.output],
        size=output.size,
        tile_unit=tile_unit(output),
        posts=requantise_posts(0, SAME_SCALE),
        table=table_blocks(function.table, staged.config.columns),
        is_lookup_only=True,
    )
