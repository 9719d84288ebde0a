"""Layers of low rank and fewer channels: nothing is lost that was not there, and cycles fall."""

from dataclasses import replace
from itertools import combinations
from unittest import mock

import numpy as np
import pytest

import matloom
from matloom.errors import UserError
from matloom.ir.attributes import Activation, Conv2D, Padding
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.quantiser import page_of, quantise
from matloom.quantiser.channels import channel_chains, removals
from matloom.quantiser.factors import Splitter, full_rank, product
from matloom.quantiser.judge import Judge
from matloom.quantiser.rewrite_layers import CHANNELS, FormChange, compress_network
from support.float_network import FloatNetwork, float_samples, litert_agreement
from support.oracles import micro


def odd_network(network):
    """Return a graph of one 3x3 CONV_2D with other strides, dilation and padding on each axis."""
    image = network.input("image", (1, 8, 8, 3), "float32")
    attributes = Conv2D(
        stride=(2, 1),
        dilation=(1, 2),
        padding=Padding(bottom=1, left=2, right=1),
        activation=Activation.RELU,
    )
    weights, bias = network.weights(6, 3, 3, 3), network.weights(6)
    return network.graph(network.add(Op.CONV_2D, [image, weights, bias], attributes))


def with_weights(graph, weights):
    number = graph.nodes[0].inputs[1]
    tensors = dict(graph.tensors)
    tensors[number] = replace(tensors[number], data=weights.astype(np.float32))
    return replace(graph, tensors=tensors)


def result(graph, image):
    (found,) = interpret(graph, {graph.inputs[0]: image}).values()
    return found


def changed(graph, form, rank, at=0):
    number = graph.nodes[at].output
    change = FormChange(number=number, layer="", form=form, rank=rank, error=0.0, cycles=1)
    return compress_network(graph, [change], {graph.inputs[0]: float_samples(40)}, seed=0)


def test_layers_of_low_rank_lose_nothing():
    network = FloatNetwork()
    graph, random = odd_network(network), network.random
    node, image = graph.nodes[0], float_samples(1, seed=9)[0]
    square = random.normal(size=(27, 27))
    for form in full_rank(node, (6, 3, 3, 3)):
        full = Splitter(node, random.normal(size=(6, 3, 3, 3)), square @ square.T)
        low = product(full.parts(form, 2))
        parts = Splitter(node, low, square @ square.T).parts(form, 2)
        assert np.allclose(product(parts), low)
        before = with_weights(graph, low)
        after = changed(before, form, 2)
        assert [each.op for each in after.nodes] == [Op.CONV_2D] * 2
        assert 2 in after.tensors[after.nodes[0].output].shape
        assert np.allclose(result(before, image), result(after, image), atol=1e-4), form


def test_outputs_lose_the_least_that_a_rank_can():
    """The best approximation leaves out the small singular values (Eckart and Young)."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(200, 12)) * np.geomspace(5, 0.1, 12)
    weights = random.normal(size=(10, 12))
    network = FloatNetwork()
    graph = network.graph(network.classes(network.input("x", (1, 2, 2, 12), "float32"), 10))
    (dense,) = [node for node in graph.nodes if node.op is Op.FULLY_CONNECTED]
    splitter = Splitter(dense, weights, rows.T @ rows / len(rows))
    sizes = np.linalg.svd(rows @ weights.T, compute_uv=False) ** 2
    for rank in (1, 4, 9):
        error = splitter.error(splitter.parts("outputs", rank))
        assert np.isclose(error, sizes[rank:].sum() / sizes.sum())


def test_removed_channels_are_the_ones_that_least_squares_needs_least():
    random = np.random.default_rng(5)
    rows = random.normal(size=(300, 5, 2)) @ random.normal(size=(2, 2))
    rows[:, 4] = rows[:, 1] + 0.01 * random.normal(size=(300, 2))
    # (rows, taps, channels), as a layer reads them.
    rows = rows.transpose(0, 2, 1)
    flat, weights = rows.reshape(300, -1), random.normal(size=(7, 2, 5))
    wanted = flat @ weights.reshape(7, -1).T
    found = removals(weights, flat.T @ flat, {4, 2})

    def lost(kept):
        given = rows[:, :, list(kept)].reshape(300, -1)
        fitted, *_ = np.linalg.lstsq(given, wanted, rcond=None)
        return np.square(wanted - given @ fitted).sum() / np.square(wanted).sum(), fitted

    for count, left in found.items():
        error, fitted = lost(left.kept)
        assert np.isclose(left.error, error)
        assert np.allclose(left.weights.reshape(7, -1).T, fitted)
        assert len(left.kept) == count
    assert found[4].error == pytest.approx(min(lost(k)[0] for k in combinations(range(5), 4)))


def test_channels_that_others_repeat_are_removed_without_a_loss():
    network = FloatNetwork()
    image = network.input("image", (1, 8, 8, 3), "float32")
    first = network.depthwise(network.convolution(image, 8, kernel=3))
    graph = network.graph(network.convolution(first, 4))
    chain = channel_chains(graph)[graph.outputs[0]]
    assert chain == list(graph.nodes)
    tensors = dict(graph.tensors)
    for node in graph.nodes[:2]:
        for number in node.inputs[1:]:
            data = tensors[number].data.copy()
            last = data.ndim == 1 or node.op is Op.DEPTHWISE_CONV_2D
            view = data if last else np.moveaxis(data, 0, -1)
            view[..., [5, 6]] = view[..., [0, 1]]
            tensors[number] = replace(tensors[number], data=data)
    graph = replace(graph, tensors=tensors)
    made = changed(graph, CHANNELS, 6, at=2)
    shapes = [made.tensors[node.output].shape[-1] for node in made.nodes]
    assert shapes == [6, 6, 4]
    picture = float_samples(1, seed=9)[0]
    # Few samples damp the fit, so it is not exact.
    before, after = result(graph, picture), result(made, picture)
    assert np.square(before - after).sum() < 1e-2 * np.square(before).sum()


@pytest.fixture(scope="module")
def network():
    network = FloatNetwork()
    image = network.input("image", (1, 8, 8, 3), "float32")
    first = network.convolution(image, 32, kernel=3)
    return network.graph(network.classes(network.convolution(first, 32, kernel=3), 5))


def test_cycles_fall_and_results_are_those_of_other_runtimes(network):
    images = float_samples(24)
    plain, made = (
        quantise(network, images, samples=20, config="small", compress=goal)
        for goal in ("sqnr=200", "points=100")
    )
    assert not plain.report.compression.chosen.changes
    found = made.report.compression
    assert found.chosen is found.trials[0]
    assert made.report.cycles < plain.report.cycles
    assert f"{found.chosen.changes[0].layer}: " in str(made.report)
    output = made.report.outputs[0]
    assert output.sqnr_db < plain.report.outputs[0].sqnr_db
    tensor = made.graph.tensors[made.graph.inputs[0]]
    integers = np.clip(np.rint(images[0] / tensor.scale) + tensor.zero_point, -128, 127)
    image = integers.astype(np.int8)
    with matloom.load(made.content, "model", config="small", check="none") as session:
        (result,) = session.run({"image": image}).values()
    assert np.array_equal(result, micro(made.content, [image], 1)[0])


@pytest.fixture(scope="module")
def searched(network, tmp_path_factory):
    """Run a search that rewrites a network; return the network and the search's journal."""
    journal = tmp_path_factory.mktemp("compress") / "trials.jsonl"
    return rewritten(network, journal), journal


def rewritten(network, journal):
    options = {"samples": 8, "config": "small", "compress": "points=100", "journal": journal}
    return quantise(network, float_samples(24), **options)


def test_an_interrupted_compression_gives_the_same_result(network, searched, tmp_path):
    """Only what the journal does not have is measured again."""
    made, journal = searched
    lines = journal.read_text().splitlines()
    (tmp_path / "trials.jsonl").write_text("\n".join(lines[:-1]))
    with mock.patch.object(Judge, "judge", autospec=True, side_effect=Judge.judge) as made_again:
        again = rewritten(network, tmp_path / "trials.jsonl")
    assert made_again.call_count == 1
    assert again.content == made.content
    assert again.report.compression == made.report.compression
    assert [each for each in (tmp_path / "trials.jsonl").read_text().splitlines() if each] == [
        each for each in lines if each
    ]


def test_networks_are_judged_on_samples_that_they_are_not_fitted_to(network, searched):
    made, report = searched[0], searched[0].report
    assert (len(report.calibrated), len(report.tried), len(report.tested)) == (8, 8, 8)
    assert sorted(report.calibrated + report.tried + report.tested) == list(range(24))
    agreement = litert_agreement(network, made, float_samples(24)[list(report.tried)])
    assert agreement == report.compression.chosen.agreement
    assert report.cycles == report.compression.chosen.cycles


def test_the_page_shows_the_forms(searched):
    report = searched[0].report
    html = page_of(report).to_html()
    assert "Layers in other forms" in html
    assert html.count("<circle") == len(report.compression.trials)
    for change in report.compression.chosen.changes:
        assert f"{change.cycles:,}" in html


def test_a_wrong_goal_is_refused(network):
    for goal in ("points", "cycles=5", "points=-1"):
        with pytest.raises(UserError, match="compress must be points=NUMBER or sqnr=NUMBER"):
            quantise(network, float_samples(2), compress=goal)
    made = FloatNetwork()
    image = made.input("image", (1, 8, 8, 3), "float32")
    values = made.graph(made.convolution(image, 1, kernel=3))
    with pytest.raises(UserError, match="have one element, so that no result can be a wrong"):
        quantise(values, float_samples(2), compress="points=1")


@pytest.mark.slow
def test_the_last_level_rewrites_layers_if_that_is_faster():
    """The layer of rank 1 is factored without a loss, which lower levels do not do."""
    network = FloatNetwork()
    image = network.input("image", (1, 8, 8, 3), "float32")
    first = network.convolution(image, 64, kernel=3)
    graph = network.graph(network.classes(network.convolution(first, 64), 5))
    number = graph.nodes[1].inputs[1]
    column, row = network.random.normal(size=64), network.random.normal(size=64)
    low = np.outer(column, row).reshape(64, 1, 1, 64).astype(np.float32) / 8
    tensors = {**graph.tensors, number: replace(graph.tensors[number], data=low)}
    graph = replace(graph, tensors=tensors)
    options = {"samples": 20, "config": "small+i8xi4"}
    report = quantise(graph, float_samples(24), target="O3", **options).report
    changes = [each.number for each in report.compression.chosen.changes]
    assert graph.nodes[1].output in changes
    cycles = [level.cycles for level in report.levels_up_to_requested]
    assert cycles[2] < cycles[1] <= cycles[0]
    assert report.cycles == cycles[2]
    assert quantise(graph, float_samples(24), target="O2", **options).report.compression is None
