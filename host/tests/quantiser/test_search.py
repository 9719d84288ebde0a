"""Search for 4-bit layers: cycles are the compiler's, agreement LiteRT's."""

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.errors import UserError
from matloom.quantiser import page_of, quantise
from matloom.quantiser.search import Goal, MixedPoint, chosen_point
from support.float_network import FloatNetwork, float_samples
from support.oracles import litert

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


def test_agreement_equals_litert(network, made):
    """LiteRT runs the quantised and the float file on the calibration samples."""
    content = frontend.write(network)[1]
    images = float_samples(16)
    tensor = made.graph.tensors[made.graph.inputs[0]]
    integers = np.clip(np.rint(images / tensor.scale) + tensor.zero_point, -128, 127)
    same = [
        litert(content, [image])[0].argmax()
        == litert(made.content, [each.astype(np.int8)])[0].argmax()
        for image, each in zip(images, integers, strict=True)
    ]
    assert abs(np.mean(same) - made.report.search.chosen.agreement) <= 1 / 16


def test_a_target_of_cycles(made):
    front = made.report.search.points
    limit = front[1].cycles
    chosen = chosen_point(list(front), Goal(kind="cycles", value=limit))
    assert chosen.cycles <= limit
    assert chosen.noise == min(point.noise for point in front if point.cycles <= limit)
    with pytest.raises(UserError, match="no mixture takes at most 1 cycles: the fastest takes"):
        chosen_point(list(front), Goal(kind="cycles", value=1))


def test_a_target_of_points():
    def point(agreement, cycles):
        return MixedPoint(layers=(), cycles=cycles, noise=0.0, agreement=agreement)

    points = [point(0.99, 100), point(0.97, 80), point(0.98, 70), point(0.90, 60)]
    for allowed, cycles in ((0.5, 100), (1, 70), (2, 70), (10, 60)):
        assert chosen_point(points, Goal(kind="points", value=allowed)).cycles == cycles


def test_the_page_has_a_chart_and_every_point(made):
    html = page_of(made.report).to_html()
    assert html.count("<circle") == len(made.report.search.points)
    assert "4-bit weights" in html


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "speed=2", "config": CONFIG}, "a target must be points=NUMBER or cycles"),
        ({"target": "points=1", "config": "nano"}, "an engine with the mode i8xi4, unlike nano"),
    ],
)
def test_searches_that_are_refused(network, options, message):
    with pytest.raises(UserError, match=message):
        quantise(network, float_samples(2), **options)


def test_targets():
    assert Goal.parse("points=0.5") == Goal(kind="points", value=0.5)
    assert Goal.parse("cycles=60000") == Goal(kind="cycles", value=60000)
