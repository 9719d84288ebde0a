from matloom.arch.config import PRESETS
from matloom.arch.machine import Machine
from matloom.ir.attributes import Arithmetic, Attributes, Softmax
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.select.partition import EngineRun, HostRun, partition

CONFIG = PRESETS["small"]
SCALE = Quantisation(scale=(1 / 256,), zero_point=(-128,))


def _tensor(name, shape=(1, 8)):
    return Tensor(name=name, shape=shape, dtype="int8", quantisation=SCALE)


def _add(first, second, output, index):
    return Node(
        op=Op.ADD,
        inputs=(first, second),
        outputs=(output,),
        attributes=Arithmetic(),
        index=index,
    )


def _graph(tensors, nodes, outputs):
    return Graph(
        name="g", inputs=(0, 1), outputs=outputs, tensors=dict(enumerate(tensors)), nodes=nodes
    )


def _partition(graph):
    names = {number: tensor.name for number, tensor in graph.tensors.items()}
    return partition(graph, Machine(config=CONFIG), names)


def test_host_operators_cut_the_engine_runs():
    softmax = Node(op=Op.SOFTMAX, inputs=(2,), outputs=(3,), attributes=Softmax(beta=1.0), index=1)
    graph = _graph(
        [_tensor(name) for name in "abcdef"],
        (_add(0, 1, 2, 0), softmax, _add(0, 0, 4, 2), _add(3, 4, 5, 3)),
        (5,),
    )
    first, host, last = _partition(graph).runs
    assert isinstance(first, EngineRun)
    assert [node.index for node in first.nodes] == [0, 2]
    assert first.consumed == (0, 1)
    assert first.produced == (2, 4)
    assert isinstance(host, HostRun)
    assert host.reason == "it needs softmax = 1, and the configuration has softmax = 0"
    assert last.consumed == (3, 4)


def test_reshapes_cost_nothing_but_a_name():
    reshape = Node(op=Op.RESHAPE, inputs=(2,), outputs=(3,), attributes=Attributes(), index=1)
    tensors = [_tensor("a"), _tensor("b"), _tensor("c"), _tensor("d", (8,))]
    parts = _partition(_graph(tensors, (_add(0, 1, 2, 0), reshape), (3,)))
    (run,) = parts.runs
    assert run.produced == (3,)
    assert parts.roots[3] == 2


def test_host_tensors_are_reshaped_on_the_host():
    reshape = Node(op=Op.RESHAPE, inputs=(0,), outputs=(2,), attributes=Attributes(), index=0)
    tensors = [_tensor("a"), _tensor("b"), _tensor("c", (8,))]
    (run,) = _partition(_graph(tensors, (reshape,), (2,))).runs
    assert isinstance(run, HostRun)
    assert run.node.op is Op.RESHAPE


def test_broadcasting_that_is_no_repetition_stays_on_the_host():
    shape = (4, 3, 8)
    tensors = [_tensor("a", shape), _tensor("b", (4, 1, 8)), _tensor("c", shape)]
    (run,) = _partition(_graph(tensors, (_add(0, 1, 2, 0),), (2,))).runs
    assert isinstance(run, HostRun)
    assert run.reason == "it broadcasts (4, 1, 8) to (4, 3, 8)"
