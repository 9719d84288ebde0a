"""Compares losses of 2:4 sparse weights with those of 4-bit weights: python bench/sparsity.py.

Two in four consecutive weights of an output are zero, so that a compact form needs 5 bits a weight:
two of eight bits, and two places of two bits. Weights of four bits (i8xi4) need 4. Both are fitted
to the same samples: the pair of zeros in each group is the one that changes the outputs least, by
the inverse covariance of the inputs (Frantar and Alistarh, SparseGPT, 2023), and the others are
then fitted by least squares. Nothing is trained again.
"""

import argparse
from dataclasses import replace
from itertools import combinations

import numpy as np
from quantise import NETWORKS, Case, case

import matloom
from matloom.ir.graph import Array, Graph
from matloom.quantiser.layer import layer_bias
from matloom.quantiser.measure import outputs_of_both
from matloom.quantiser.moments import as_channels, as_weights, layer_moments
from matloom.quantiser.precisions import NARROW
from matloom.quantiser.rounding import quadratic_form, round_weights
from matloom.quantiser.run_nodes import outputs_of, run_nodes


def two_in_four(weights: Array, covariance: Array) -> Array:
    """Return weights (outputs, depth) pruned to 2:4 sparsity and refitted by least squares.

    `covariance` is that of the inputs, (depth, depth).
    """
    inverse, fitted = np.linalg.inv(covariance), np.zeros_like(weights)
    pairs = list(combinations(range(4), 2))
    kept = np.ones(weights.shape, bool)
    for start in range(0, weights.shape[1] - 3, 4):
        costs = []
        for pair in pairs:
            places = start + np.array(pair)
            values = weights[:, places]
            costs.append(np.linalg.solve(inverse[np.ix_(places, places)], values.T).T * values)
        best = np.argmin(np.sum(costs, axis=2), axis=0)
        kept[np.arange(len(weights))[:, np.newaxis], start + np.array(pairs)[best]] = False
    for row, places in enumerate(kept):
        right = covariance[places] @ weights[row]
        fitted[row, places] = np.linalg.solve(covariance[np.ix_(places, places)], right)
    return fitted


def lost_variance(weights: Array, pruned_weights: Array, covariance: Array) -> float:
    """Return the share of the outputs' variance lost by pruning, given the inputs' covariance."""
    lost = pruned_weights - weights
    return float(((lost @ covariance) * lost).sum() / ((weights @ covariance) * weights).sum())


def sparse_network(case: Case) -> Graph:
    """Return the float network with 2:4 sparse weights; print what each layer loses."""
    graph, tensors = case.graph, dict(case.graph.tensors)
    for _at, node, known in run_nodes(graph, {graph.inputs[0]: case.calibration}):
        if node.op not in NARROW:
            continue
        number, data = node.inputs[1], known[node.inputs[0]]
        values = tensors[number].data
        weights = as_channels(node, values).astype(np.float64)
        bias = layer_bias(graph, node, len(weights))
        moments = layer_moments(node, values, bias, (data, data), np.random.default_rng(0))
        form = quadratic_form(moments, weights.shape[1])[0]
        sparse = two_in_four(weights, form)
        narrow = round_weights(weights, moments, bits=4)
        four = narrow.integers * narrow.scales[:, np.newaxis]
        losses = (lost_variance(weights, made, form) for made in (sparse, four))
        print(f"  {values.shape}: 2:4 loses {next(losses):.2%}, four bits {next(losses):.2%}")
        made = as_weights(node, sparse.astype(np.float32), values.shape)
        tensors[number] = replace(tensors[number], data=made)
    return replace(graph, tensors=tensors)


def main() -> None:
    """Print losses of layers, agreement with the float network, and cycles that weights take."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", choices=NETWORKS, action="append")
    for name in parser.parse_args().only or ("ic", "kws", "ad"):
        given = case(name)
        print(name)
        inputs = {given.graph.inputs[0]: given.test}
        (sparse,) = outputs_of(sparse_network(given), inputs)
        for precision in ("i8xi8", "i8xi4"):
            quantised = matloom.quantise(
                given.graph, given.calibration, precision=precision, config="reference+i8xi4"
            )
            ((exact, result),) = outputs_of_both(given.graph, quantised.graph, inputs)
            print_quality(precision, exact, result)
            print(f"  {precision}: {quantised.report.cycles:,} cycles predicted")
        print_quality("2:4 with floats", exact, sparse)


def print_quality(name: str, exact: Array, result: Array) -> None:
    """Print the agreement and the noise of a network's outputs."""
    same = exact.argmax(axis=-1) == result.argmax(axis=-1)
    noise = np.square(result - exact).sum() / np.square(exact).sum()
    print(f"  {name}: agreement {same.mean():.1%}, noise {noise:.2%}", flush=True)


if __name__ == "__main__":
    main()
