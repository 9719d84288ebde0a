"""Checks samples, and splits them into those for calibration and those for measuring."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from matloom.errors import UserError
from matloom.ir.graph import Array, Graph
from matloom.quantiser.run_nodes import last_uses
from matloom.tools.samples import graph_samples

#: Maximum bytes of all tensors in memory at a time.
_MOST_BYTES = 3 << 29
#: Bytes of memory per element: float, integer, and a copy of a float.
_ELEMENT_BYTES = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleSplit:
    """Samples by input number, (samples, *shape), in sets for different purposes.

    Members
    -------
    calibration:
        Samples that decide ranges and roundings.
    trial:
        Samples on which a search measures networks; those of `calibration` if there are no others.
    test:
        Samples on which the result is measured; those of `calibration` if there are no others.
    chosen, tried, others:
        Disjoint positions, among the user's samples, of those for calibration, trials and tests.
        `tried` and `others` may be empty; samples for calibration then serve the purpose.
    """

    calibration: Mapping[int, Array]
    trial: Mapping[int, Array]
    test: Mapping[int, Array]
    chosen: Array
    tried: Array
    others: Array

    @property
    def measured(self) -> Array:
        """Positions of the samples in `test`."""
        return self.others if len(self.others) else self.chosen

    def for_trials(self) -> "SampleSplit":
        """Return the split that a search uses.

        Without samples for trials, these are half of the samples for calibration, or the only one.
        """
        if len(self.tried):
            return self
        if len(self.chosen) == 1:
            return replace(self, tried=self.chosen)
        known, held = (
            {number: array[at::2] for number, array in self.calibration.items()} for at in (0, 1)
        )
        return replace(
            self, calibration=known, trial=held, chosen=self.chosen[::2], tried=self.chosen[1::2]
        )


def split_samples(
    graph: Graph,
    data: Array | Mapping[str, Array],
    count: int,
    seed: int,
    *,
    searching: bool = False,
) -> SampleSplit:
    """Return samples for a network, of which at most `count`, drawn by `seed`, are for calibration.

    If `searching`, half of the others are for trials, but at most twice `count`.

    Raises
    ------
    UserError
        Samples do not fit the network's inputs, are not finite, or would need too much memory.
    """
    if count < 1:
        raise UserError(f"samples must be at least 1, not {count}", hint="leave the option out")
    given = graph_samples(graph, data)
    for name, array in given.arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = int(np.argmin(np.isfinite(array).reshape(len(array), -1).all(axis=1)))
            raise UserError(
                f"input {name!r} must be finite, but sample {bad} has NaN or infinity",
                hint="leave such samples out of the calibration data",
            )
    total = len(given)
    order = np.random.default_rng(seed).permutation(total)
    tried = min((total - min(count, total)) // 2, 2 * count) if searching else 0
    chosen, trial, others = (np.sort(each) for each in np.split(order, [count, count + tried]))
    _require_memory(graph, len(chosen))
    by_number = {number: given.arrays[graph.tensors[number].name] for number in graph.inputs}

    def select(positions: Array) -> dict[int, Array]:
        """Return all inputs' samples at some positions, or the calibration samples."""
        # Without others, results refer to the calibration samples themselves.
        wanted = positions if len(positions) else chosen
        return {number: array[wanted] for number, array in by_number.items()}

    return SampleSplit(
        calibration=select(chosen),
        trial=select(trial),
        test=select(others),
        chosen=chosen,
        tried=trial,
        others=others,
    )


def check_labels(labels: npt.ArrayLike | None, split: SampleSplit, graph: Graph) -> Array | None:
    """Return the class of each sample; None without labels.

    Raises
    ------
    UserError
        The number of labels is not that of samples, or a label is not a class of the outputs.
    """
    if labels is None:
        return None
    given = np.asarray(labels).reshape(-1)
    total = len(split.chosen) + len(split.tried) + len(split.others)
    if given.dtype.kind not in "iu" or len(given) != total:
        raise UserError(
            f"labels must be {total} integers, one for each sample, not {len(given)} of "
            f"{given.dtype}",
            hint="--labels takes an array of --data, or a file: labels.npy, labels.csv:COLUMN",
        )
    classes = max(graph.tensors[number].shape[-1:] or (1,) for number in graph.outputs)[0]
    outside = given[(given < 0) | (given >= classes)]
    if len(outside):
        raise UserError(
            f"labels must be classes of {graph.name}, 0 to {classes - 1}, not {outside[0]}",
            hint="number the classes like the network's outputs, from 0",
        )
    return given


def _require_memory(graph: Graph, samples: int) -> None:
    """Raise UserError if the tensors of this many samples would need more than `_MOST_BYTES`."""
    dropped, alive, most = last_uses(graph), set(graph.inputs), 0
    for at, node in enumerate(graph.nodes):
        alive.update(node.outputs)
        most = max(most, sum(graph.tensors[number].size for number in alive))
        alive.difference_update(dropped[at])
    fitting = _MOST_BYTES // (max(most, 1) * _ELEMENT_BYTES)
    if samples > max(fitting, 1):
        raise UserError(
            f"{samples} samples of {graph.name} need more than {_MOST_BYTES >> 20:,} MiB",
            hint=f"use at most {fitting} samples to calibrate: --samples {fitting}",
        )
