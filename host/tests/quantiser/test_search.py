"""Search for 4-bit layers: cycles are the compiler's, agreement LiteRT's."""

from unittest import mock

import numpy as np
import pytest

import matloom
from matloom.errors import UserError
from matloom.quantiser import page_of, quantise
from matloom.quantiser.journal import Journal
from matloom.quantiser.search import Goal, choose_point
from matloom.quantiser.trials import MixedPoint, Trials
from support.float_network import FloatNetwork, float_samples, litert_agreement

CONFIG = "small+i8xi4"


@pytest.fixture(scope="module")
def network():
    """Return a network of two layers that gain from 4-bit weights, and a dense layer."""
    made = FloatNetwork()
    image = made.input("image", (1, 8, 8, 3), "float32")
    first = made.convolution(image, 16, kernel=3)
    return made.graph(made.classes(made.convolution(first, 16), 5))


@pytest.fixture(scope="module")
def made(network):
    return quantise(network, float_samples(16), config=CONFIG, target="points=100")


def test_cycles_are_those_of_the_compiler(network, made):
    front = made.report.search.points
    assert [point.cycles for point in front] == sorted(point.cycles for point in front)
    assert made.report.cycles == made.report.search.chosen.cycles == front[0].cycles
    for point, precision in ((front[-1], "i8xi8"), (front[0], "i8xi4")):
        whole = quantise(network, float_samples(16), precision=precision)
        program = matloom.compile(whole.graph, CONFIG, check="none")
        if len(point.layers) in (0, len(made.report.search.sensitivities)):
            assert program.predicted_cycles == point.cycles


def test_errors_grow_as_cycles_fall(made):
    best = [point for point in made.report.search.points if point.best]
    ratios = [point.sqnr_db for point in best]
    assert ratios == sorted(ratios)
    assert ratios[-1] > ratios[0]


def test_agreement_equals_litert(network):
    """LiteRT runs the quantised and the float file on the samples of the trials."""
    images = float_samples(24)
    made = quantise(network, images, samples=8, config=CONFIG, target="points=100")
    agreement = litert_agreement(network, made, images[list(made.report.tried)])
    assert agreement == made.report.search.chosen.agreement


def test_without_other_samples_a_search_holds_back_half(made):
    report = made.report
    assert len(report.tried) == 8
    assert set(report.tried) < set(report.calibrated) == set(report.tested)


def test_a_target_of_cycles(made):
    front = made.report.search.points
    limit = front[1].cycles
    chosen = choose_point(list(front), Goal(kind="cycles", value=limit))
    assert chosen.cycles <= limit
    assert chosen.noise == min(point.noise for point in front if point.cycles <= limit)
    with pytest.raises(UserError, match="no mixture takes at most 1 cycles: the fastest takes"):
        choose_point(list(front), Goal(kind="cycles", value=1))


def test_a_target_of_points():
    def point(expected, cycles):
        layers = () if cycles == 100 else ("a",)
        figures = {"noise": 0.0, "varying_noise": 0.0, "agreement": 0.0, "expected": expected}
        return MixedPoint(layers=layers, cycles=cycles, **figures)

    points = [point(0.99, 100), point(0.97, 80), point(0.98, 70), point(0.90, 60)]
    for allowed, cycles in ((0.5, 100), (1, 70), (2, 70), (10, 60)):
        assert choose_point(points, Goal(kind="points", value=allowed)).cycles == cycles


def test_the_page_has_a_chart_and_every_point(made):
    html = page_of(made.report).to_html()
    assert html.count("<circle") == len(made.report.search.points)
    assert "4-bit weights" in html


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"target": "speed=2", "config": CONFIG},
            "a target must be points=NUMBER, cycles=NUMBER or",
        ),
        ({"target": "points=1", "config": "nano"}, "an engine with the mode i8xi4, unlike nano"),
    ],
)
def test_searches_that_are_refused(network, options, message):
    with pytest.raises(UserError, match=message):
        quantise(network, float_samples(2), **options)


def test_targets():
    assert Goal.parse("points=0.5") == Goal(kind="points", value=0.5)
    assert Goal.parse("cycles=60000") == Goal(kind="cycles", value=60000)


def test_one_output_has_no_points_to_lose():
    made = FloatNetwork()
    image = made.input("image", (1, 8, 8, 3), "float32")
    network = made.graph(made.convolution(image, 1, kernel=3))
    message = "the outputs of small have one element, so that no result can be a wrong class"
    with pytest.raises(UserError, match=message):
        quantise(network, float_samples(2), config=CONFIG, target="points=1")


@pytest.fixture(scope="module")
def boosted(network, tmp_path_factory):
    """Return a search with labels, and its journal."""
    journal = tmp_path_factory.mktemp("boost") / "trials.jsonl"
    return boost(network, journal), journal


def boost(network, journal):
    images, labels = float_samples(40), np.arange(40) % 5
    options = {"labels": labels, "samples": 10, "target": "O3", "journal": str(journal)}
    return quantise(network, images, config=CONFIG, **options)


def test_levels_are_measured_on_samples_that_nothing_was_chosen_on(boosted):
    report = boosted[0].report
    assert [level.name for level in report.levels_up_to_requested] == ["O1", "O2", "O3"]
    assert (len(report.calibrated), len(report.tried), len(report.tested)) == (10, 15, 15)
    assert sorted(report.calibrated + report.tried + report.tested) == list(range(40))
    assert not report.levels_up_to_requested[0].layers
    cycles = [level.cycles for level in report.levels_up_to_requested]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[-1] == report.cycles
    for level in report.levels_up_to_requested:
        assert level.outputs[0].samples == 15
        assert level.outputs[0].accuracy is not None
    html = page_of(report).to_html()
    for level in report.levels_up_to_requested:
        assert f"level {level.name}: {level.cycles:,} cycles predicted" in str(report)
        assert f"{level.cycles:,}" in html


def test_a_level_is_the_network_of_its_layers(network, boosted):
    """The first level is what no search makes."""
    images = float_samples(40)
    level = boosted[0].report.levels_up_to_requested[0]
    alone = quantise(network, images, labels=np.arange(40) % 5, samples=10, target="O1")
    assert alone.report.search is None
    places = [alone.report.tested.index(at) for at in boosted[0].report.tested]
    assert len(places) == level.outputs[0].samples
    whole = quantise(network, images, samples=10)
    assert whole.content == alone.content


def test_an_interrupted_search_gives_the_same_result(network, boosted, tmp_path):
    """Only the trials that the journal does not have are made again."""
    made, journal = boosted
    lines = journal.read_text().splitlines(keepends=True)
    kept = lines[:-2]
    # The line that was being written is cut short.
    (tmp_path / "trials.jsonl").write_text("".join(kept) + lines[-2][:20])
    with mock.patch.object(
        Trials, "_measure_mixture", autospec=True, side_effect=Trials._measure_mixture
    ) as made_again:
        again = boost(network, tmp_path / "trials.jsonl")
    assert made_again.call_count == len(lines) - len(kept)
    assert again.content == made.content
    assert again.report.search == made.report.search


def test_a_journal_leaves_out_lines_of_other_searches_and_damaged_ones(tmp_path):
    path, made = tmp_path / "trials.jsonl", []

    def trial():
        made.append(len(made))
        return {"number": made[-1]}

    assert Journal(path, b"one").get_or_run("a", trial) == {"number": 0}
    assert Journal(path, b"two").get_or_run("a", trial) == {"number": 1}
    with path.open("a") as file:
        file.write('\n{"search": "\n[1]\n{}\n')
    for search, number in ((b"one", 0), (b"two", 1)):
        assert Journal(path, search).get_or_run("a", trial) == {"number": number}
    assert Journal(None, b"one").get_or_run("a", trial) == {"number": 2}
