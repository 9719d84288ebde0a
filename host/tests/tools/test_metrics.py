"""Metrics, compared with published intervals, scikit-learn, and written-out definitions."""

import numpy as np
import pytest

from matloom.tools.metrics import compute_score, confusion, hanley_mcneil, metric_rank, wilson


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_intervals_are_the_published_ones(hits, samples, low, high):
    assert wilson(hits, samples) == pytest.approx((low, high), abs=5e-5)
    # Right and wrong change places.
    mirrored = wilson(samples - hits, samples)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_intervals_hold_their_share():
    for samples in (1, 2, 60):
        for hits in range(samples + 1):
            low, high = wilson(hits, samples)
            assert 0 <= low <= hits / samples <= high <= 1


def test_the_error_of_an_area_is_the_published_one():
    """Hanley and McNeil, Radiology 143 (1982): 0.893 of 51 abnormal and 58 normal images."""
    assert hanley_mcneil(0.893, 51, 58) == pytest.approx(0.032, abs=1e-3)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("levels", [3, 20, 100_000])
def test_areas_equal_scikit_learn(columns, levels):
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is absent")
    draw = np.random.default_rng(levels)
    for _ in range(20):
        outputs = draw.integers(0, levels, (30, columns)).astype(float)
        labels = np.r_[0, 1, draw.integers(0, 2, 28)]
        score = outputs[:, -1] - (outputs[:, 0] if columns == 2 else 0)
        found = compute_score("auc", outputs, labels)
        assert found.value == pytest.approx(metrics.roc_auc_score(labels, score))
        assert 0 <= found.low <= found.value <= found.high <= 1


def in_words(outputs, label, rank):
    """Return whether a label is among the largest, removing the largest one by one."""
    left = list(enumerate(outputs))
    for _ in range(rank):
        best = left[0]
        for item in left:
            if item[1] > best[1]:
                best = item
        if best[0] == label:
            return True
        left.remove(best)
    return False


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_top_k_counts_the_first_of_equal_elements(rank, levels):
    draw = np.random.default_rng(rank)
    outputs = draw.integers(0, levels, (200, 5)).astype(float)
    labels = draw.integers(0, 5, 200)
    hits = sum(in_words(row, label, rank) for row, label in zip(outputs, labels, strict=True))
    found = compute_score(f"top{rank}", outputs, labels)
    assert found.value == hits / 200
    assert (found.low, found.high) == wilson(hits, 200)
    if rank == 5:
        assert hits == 200


def test_confusion_counts_rows_as_right_and_columns_as_taken():
    outputs = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0], [2, 2, 1]])
    labels = np.array([0, 0, 2, 1, 1])
    assert confusion(outputs, labels).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def test_errors_are_means_of_samples():
    outputs, labels = np.array([[1.0, 2], [3, 4], [0, 0]]), np.array([[1.0, 0], [0, 4], [1, 1]])
    squared = compute_score("mse", outputs, labels)
    assert squared.value == pytest.approx((2 + 4.5 + 1) / 3)
    spread = 1.959964 * np.std([2, 4.5, 1], ddof=1) / np.sqrt(3)
    assert squared.high == pytest.approx(2.5 + spread)
    assert compute_score("mae", outputs, labels).value == pytest.approx((1 + 1.5 + 1) / 3)
    alone = compute_score("mae", outputs[:1], labels[:1])
    assert (alone.low, alone.high, alone.method) == (None, None, "one sample")


@pytest.mark.parametrize("metric", ["top0", "top", "top-1", "f1", "", "TOP1", "top01"])
def test_invalid_metrics(metric):
    with pytest.raises(ValueError, match="metric must be one of top1, top5, auc, mse, mae, not"):
        metric_rank(metric)
