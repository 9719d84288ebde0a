import pytest

from matloom.arch.config import PRESETS
from matloom.ir.graph import Op
from matloom.ir.verify import verify
from matloom.verification.random_layers import random_layer


@pytest.mark.parametrize("config", ["small", "reference"])
def test_layers_are_valid_and_of_every_kind(config):
    kinds = set()
    for seed in range(150):
        graph, inputs = random_layer(seed, PRESETS[config])
        verify(graph, "random_layer")
        assert {number: array.shape for number, array in inputs.items()} == {
            number: graph.tensors[number].shape for number in graph.inputs
        }
        kinds.add(graph.nodes[0].op)
    units = {Op.HARD_SWISH, Op.LOGISTIC, Op.MUL} if config == "reference" else set()
    assert kinds == units | {
        Op.ADD,
        Op.AVERAGE_POOL_2D,
        Op.CONV_2D,
        Op.DEPTHWISE_CONV_2D,
        Op.FULLY_CONNECTED,
        Op.MAX_POOL_2D,
        Op.QUANTIZE,
    }


def test_a_seed_gives_the_same_layer_again():
    first, second = (random_layer(11, PRESETS["nano"]) for _ in range(2))
    assert first[0].nodes == second[0].nodes
    assert all((first[1][number] == array).all() for number, array in second[1].items())
