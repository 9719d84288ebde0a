"""Chooses stages whose tiles are interleaved with the tiles of the stage before."""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from matloom.schedule import tuning
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.stages import Tiling


def _can_interleave(
    segment: Segment, index: int, tilings: list[Tiling], finished: dict[str, int]
) -> bool:
    """Return whether the tiles of stage `index` can be interleaved with those of the stage before.

    False if there is no such stage. `finished` has the number of leading bytes of each tensor that
    earlier stages have completed.
    """
    if index == len(segment.stages):
        return False
    consumer, output = segment.stages[index], segment.stages[index - 1].output
    if output not in consumer.inputs:
        return False
    if not consumer.is_elementwise and not _multiplies_rows(segment, index, tilings[index]):
        return False
    if _alternates_tables(segment, index):
        return False
    if output in consumer.uneven_inputs or waits_for_reader(segment, index, tilings):
        return False
    return all(
        name == output or finished.get(name, segment.sizes[name]) >= segment.sizes[name]
        for name in consumer.inputs
    )


def _alternates_tables(segment: Segment, index: int) -> bool:
    """Return whether a lookup stage follows a stage with one weight tile that adds by a table.

    If their tiles were interleaved, POST would fill the same table memory for every tile of both,
    and no arithmetic would hide that.
    """
    producer, consumer = segment.stages[index - 1 : index + 1]
    return producer.adds_results and consumer.is_lookup_only and producer.steps == 1


def _multiplies_rows(segment: Segment, index: int, tiling: Tiling) -> bool:
    """Return whether a matrix product reads rows that POST makes whole, as after SOFTMAX.

    POST takes much longer to make the rows than the array to multiply them. The stage must read
    them in order, and no tile may leave unfinished sums.
    """
    producer, reader = segment.stages[index - 1 : index + 1]
    if not producer.is_softmax or reader.inputs.index(producer.output):
        return False
    ends = [part.end for part in tiling.input_ranges]
    return ends == sorted(ends) and not any(tiling.pending)


def waits_for_reader(segment: Segment, index: int, tilings: list[Tiling]) -> bool:
    """Return whether the tiles of a table lookup should run just before the tiles that read them.

    Otherwise they run just after the tiles of their producer. POST takes hundreds of cycles to fill
    tables by channel, and fills them again for each tile if the producer also uses a table. The
    order with the fewer estimated cycles is chosen.
    """
    if index + 1 >= len(segment.stages) or not index:
        return False
    producer, stage, reader = segment.stages[index - 1 : index + 2]
    if not stage.is_lookup_only or stage.table is None or stage.table.ndim == 1:
        return False
    follows = producer.adds_results and producer.output in stage.inputs
    reads = not reader.is_elementwise and reader.table is None and reader.inputs[0] == stage.output
    if not (follows and reads):
        return False
    columns = segment.config.columns
    making, looking_up, reading = (-(-each.size // columns) for each in (producer, stage, reader))
    first, last = (sum(tilings[at].cycles) for at in (index - 1, index + 1))
    fills = len(tilings[index].tiles) * segment.config.table_rows * columns
    blocks = len(stage.table)
    with_producer = max(first, making + looking_up + blocks * fills) + max(last, reading)
    with_reader = max(first, making) + max(last, reading + looking_up + (blocks - 1) * fills)
    # Nothing hides what the first two tiles of the reader need.
    with_reader += min(looking_up, 2 * looking_up // len(tilings[index + 1].tiles))
    return with_reader < with_producer


@dataclass
class Followers:
    """Stages whose tiles alternate with those of an earlier stage, and by how many tiles they lag.

    Members
    -------
    distances:
        The number of tiles by which each stage stays behind the one before it.
    handed_tensors, in_turns:
        As in `Sequence`.
    """

    distances: list[int] = field(default_factory=list)
    handed_tensors: set[str] = field(default_factory=set)
    in_turns: set[int] = field(default_factory=set)


def followers(
    segment: Segment,
    first: int,
    tilings: list[Tiling],
    spilled: frozenset[str],
    finished: dict[str, int],
) -> Followers:
    """Return the stages after `first` whose tiles are interleaved with its tiles.

    `spilled` are the tensors in external memory, and `finished` has the number of leading bytes of
    each tensor that earlier stages have completed.
    """
    found = Followers()
    while True:
        index = first + len(found.distances)
        name, pair = segment.stages[index].output, tilings[index : index + 2]
        turns = name in spilled & segment.alternating_tensors and _have_equal_strips(*pair)
        if not turns and not _can_interleave(segment, index + 1, tilings, finished):
            return found
        if turns:
            found.in_turns.add(index)
        if turns or (name in spilled & segment.followed_tensors and _tiles_match(*pair)):
            found.handed_tensors.add(name)
        stored = tuning.STORED_TILES if name in spilled - found.handed_tensors else 0
        if not segment.stages[index + 1].is_elementwise and not turns:
            # Its operands are made while POST is at the tile after them.
            stored = max(stored, tuning.TURN_TILES)
        found.distances.append(tuning.TURN_TILES if turns else stored)


def _have_equal_strips(producer: Tiling, reader: Tiling) -> bool:
    """Return whether two stages make the same strips of rows in the same order."""
    return bool(_strips_of(producer)) and _strips_of(producer) == _strips_of(reader)


def _strips_of(tiling: Tiling) -> list[tuple[int, object]]:
    """Return the image and the rows of each strip of a stage, in order."""
    # Tiles of strips are of the array.
    strips = dict.fromkeys(tiling.tiles_of_strip)
    firsts: list[Any] = [tiling.tiles[strip.start] for strip in strips]
    return [(tile.image, tile.strip) for tile in firsts]


def _tiles_match(producer: Tiling, reader: Tiling) -> bool:
    """Return whether each tile of an element-wise stage reads the output of only one tile."""
    ends = producer.flat_ends
    return bool(ends) and all(
        part.end <= ends[bisect_right(ends, part.start)] for part in reader.input_ranges
    )
