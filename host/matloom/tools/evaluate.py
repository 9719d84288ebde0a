"""Measures a network on labelled samples: accuracy, and cost per sample."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.device.driver import Driver
from matloom.errors import UserError, did_you_mean
from matloom.ir.graph import Array, Graph, Op
from matloom.program import HostStep, Program, TensorInfo
from matloom.program.quantise import dequantise
from matloom.report import Report
from matloom.runtime import load
from matloom.session import Session
from matloom.tools.evaluation import ClassResult, Evaluation
from matloom.tools.metrics import compute_score, confusion, metric_rank
from matloom.tools.samples import Samples, network_samples

#: Labels of a binary decision.
_BINARY = {0, 1}


def evaluate(
    model: str | Path | Graph | Program,
    inputs: Array | Mapping[str, Array],
    labels: npt.ArrayLike,
    metric: str = "top1",
    *,
    output: str | None = None,
    device: str | Driver = "fast",
    first: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Return the accuracy of a network on labelled samples, and its cost per sample.

    The state of the network is reset before each sample.

    Parameters
    ----------
    model, device, options:
        As for `matloom.load`. Device ``"fast"`` computes with the operators' kernels and reports
        predicted cycles.
    inputs:
        An array for each input by name, with samples along an extra leading axis or along the
        model's batch; or one array if there is one input. Floats are quantised with the input's
        scale.
    labels:
        Class of each sample, or of each row of a batch; for error metrics, the real numbers.
    metric:
        ``"top1"`` or ``"topK"`` for any K; ``"auc"`` for labels 0 and 1 and an output of one or two
        elements; ``"mse"`` or ``"mae"`` between real numbers. The first of equal elements counts as
        the largest.
    output:
        Name of the output; optional if there is only one.
    first:
        Number of samples to use; None for all.
    progress:
        Called with the number of finished samples and the total.

    Raises
    ------
    UserError
        Inputs or labels do not fit the network, the metric, or each other.
    """
    metric_rank(metric)
    with load(model, device, **options) as session:
        info = _output_to_evaluate(session.program, output)
        samples = network_samples(session.program.inputs, inputs)
        expected = _fitting_labels(np.asarray(labels), metric, info, len(samples))
        wanted = len(samples) if first is None else min(first, len(samples))
        started = time.perf_counter()
        results, reports = _run_samples(session, samples, info, wanted, progress)
        seconds = time.perf_counter() - started
    expected = expected[: len(expected) // len(samples) * wanted]
    evaluation = _evaluation(metric, results.reshape(len(expected), -1), expected, reports)
    return replace(
        evaluation, output=info.name, seconds=round(seconds, 3), conversions=samples.notes
    )


def _evaluation(metric: str, results: Array, expected: Array, reports: list[Report]) -> Evaluation:
    """Return the evaluation of the outputs (samples, elements) and of the samples' reports."""
    score, last = compute_score(metric, results, expected), reports[-1]
    pairs = None if metric_rank(metric) is None else confusion(results, expected)
    return Evaluation(
        network=last.network,
        device=last.device,
        config_digest=last.config_digest,
        samples=len(reports),
        metric=metric,
        value=score.value,
        low=score.low,
        high=score.high,
        interval=score.method,
        cycles=statistics.median_low([each.cycles for each in reports]),
        cycles_first=reports[0].cycles,
        cycles_source=last.cycles_source,
        computed_by=last.computed_by,
        equality=last.equality,
        classes=() if pairs is None else _class_results(pairs),
        confusion=() if pairs is None else tuple(map(tuple, pairs.tolist())),
    )


def _run_samples(
    session: Session,
    samples: Samples,
    info: TensorInfo,
    count: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[Array, list[Report]]:
    """Return the output `info` of the first `count` samples as real numbers, and their reports."""
    opaque = (step for step in session.program.steps if isinstance(step, HostStep))
    remembers = session.program.variables or any(step.operator == Op.REFERENCE for step in opaque)
    results, reports = [], []
    for number in range(count):
        if number and remembers:
            session.reset()
        results.append(session.run(samples.sample(number))[info.name])
        reports.append(session.report())
        if progress is not None:
            progress(number + 1, count)
    return dequantise(info, np.stack(results)), reports


def _output_to_evaluate(program: Program, name: str | None) -> TensorInfo:
    """Return the output to evaluate: the named one, or the only one.

    Raises
    ------
    UserError
        There is no output of this name, or several and no name.
    """
    infos = {info.name: info for info in program.outputs}
    if name is None and len(infos) == 1:
        return program.outputs[0]
    names = ", ".join(infos)
    if name is None:
        raise UserError(
            f"an output must be named: one of {names}", hint="name it with --output, or output="
        )
    if name not in infos:
        raise UserError(
            f"{program.name} has no output {name!r}, but {names}",
            hint=did_you_mean(name, infos) or "matloom explain NET lists the outputs",
        )
    return infos[name]


def _class_count(info: TensorInfo) -> int:
    """Return the number of classes of an output: the length of its last axis."""
    return info.shape[-1] if info.shape else 1


def _fitting_labels(labels: Array, metric: str, info: TensorInfo, samples: int) -> Array:
    """Return labels as `compute_score` needs them; raise UserError if they do not fit.

    They are int64 classes (rows,), or float64 numbers (rows, elements) for error metrics.
    """
    rows = samples * max(1, int(np.prod(info.shape[:-1])))
    if metric in ("mse", "mae"):
        wanted = (rows, _class_count(info))
        if labels.dtype.kind not in "iuf" or labels.size != rows * _class_count(info):
            raise UserError(
                f"labels of {metric} must be numbers for {samples} samples of {info.shape}, "
                f"{rows * _class_count(info)} in all, not {labels.size} of {labels.dtype}",
                hint="give one number for each element of the output",
            )
        return labels.astype(np.float64).reshape(wanted)
    classes = labels.reshape(-1)
    if classes.dtype.kind == "f" and np.array_equal(classes, np.floor(classes)):
        classes = classes.astype(np.int64)
    if classes.dtype.kind not in "iub":
        raise UserError(
            f"labels of {metric} must be integers, not {labels.dtype}",
            hint="give classes from 0 on, or use --metric mse or mae for numbers",
        )
    if len(classes) != rows:
        raise UserError(
            f"there must be one label per sample ({rows}), not {len(classes)}",
            hint="give one label for each sample of --input, in its order",
        )
    return _require_known_classes(classes.astype(np.int64), metric, _class_count(info))


def _require_known_classes(classes: Array, metric: str, elements: int) -> Array:
    """Return classes unchanged; raise UserError unless metric and output can have all of them."""
    if metric == "auc":
        if elements > len(_BINARY):
            raise UserError(
                f"the output of auc must have 1 or 2 elements, not {elements}",
                hint="use --metric top1 for more classes",
            )
        if set(classes.tolist()) != _BINARY:
            found = ", ".join(map(str, sorted(set(classes.tolist()))[:5]))
            raise UserError(
                f"labels of auc must be 0 and 1, both of them, not {found}",
                hint="give samples of both classes, or use --metric top1",
            )
        return classes
    rank = metric_rank(metric)
    if rank is not None and rank > elements:
        raise UserError(
            f"metric must be at most top{elements} for {elements} classes, not {metric}",
            hint="take --metric top1",
        )
    outside = classes[(classes < 0) | (classes >= elements)]
    if outside.size:
        raise UserError(
            f"labels must be classes of the output, 0 to {elements - 1}, not {outside[0]}",
            hint="classes are counted from 0"
            if classes.max() == elements and classes.min() == 1
            else "",
        )
    return classes


def _class_results(pairs: Array) -> tuple[ClassResult, ...]:
    """Return the counts for each class from the confusion matrix (classes, classes)."""
    return tuple(
        ClassResult(
            label=label,
            samples=int(row.sum()),
            taken=int(pairs[:, label].sum()),
            right=int(row[label]),
        )
        for label, row in enumerate(pairs)
    )
