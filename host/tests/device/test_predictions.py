"""Predicted cycles of random layers, against the chip's counters."""

from contextlib import closing

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.device.open import open_device
from matloom.ir.graph import Op
from matloom.program import EngineStep
from matloom.runtime import load
from matloom.select.operators import ENGINE
from matloom.tools.compare import random_inputs
from matloom.verification.random_operators import KINDS, RandomOperators

#: Operators whose int16 form the engine runs.
INT16 = (
    *(Op.CONV_2D, Op.ADD, Op.FULLY_CONNECTED, Op.DEPTHWISE_CONV_2D, Op.QUANTIZE),
    *(Op.AVERAGE_POOL_2D, Op.LEAKY_RELU, Op.MAXIMUM, Op.MEAN, Op.MINIMUM, Op.MUL, Op.RELU),
    *(Op.LOGISTIC, Op.RELU6, Op.SUM, Op.TANH),
)
OPERATORS = {"int8": sorted(ENGINE & KINDS.keys()), "int16": INT16}


class LargeLayers(RandomOperators):
    """Random operators of up to 60,000 elements, long enough for predictions to be wrong."""

    def __init__(self, seed, dtype):
        super().__init__(seed, dtype, engine=True)
        self._growth = self._integer(1, 4)

    def _length(self, most):
        return self._integer(1, 8 * self._growth)

    def _channels(self, most):
        return self._integer(1, 12 * self._growth)

    def _shape(self, rank=None, longest=6):
        rank = self._integer(1, 4) if rank is None else rank
        shape = [self._integer(1, 9 * self._growth) for _ in range(rank)]
        if rank == 4:
            shape[0] = 1
        while np.prod(shape) > 60_000:
            shape[int(np.argmax(shape))] //= 2
        return tuple(shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("nano", "int8"), ("small", "int8"), ("small+i16xi8+products=4+curves=1", "int16")],
)
def test_random_layers(name, dtype):
    """One layer in fifty may be off by more than 5 % and 50 cycles, none by more than 8 %."""
    config, operators = load_config(name), OPERATORS[dtype]
    far, compared = {}, 0
    with closing(open_device("rtl", config, memory_bytes=1 << 24)) as device:
        for number in range(5 * len(operators)):
            op = operators[number % len(operators)]
            graph = LargeLayers([7, number], dtype).make(op)
            program = compile_network(graph, config, check="none")
            if not any(isinstance(step, EngineStep) for step in program.steps):
                continue
            inputs = random_inputs(graph, number)
            named = {graph.tensors[tensor].name: array for tensor, array in inputs.items()}
            session = load(program, device=device)
            # The second call may have its weights on the chip.
            for _call in range(2):
                session.run(named)
                report = session.report()
                error = abs(report.predicted_cycles - report.cycles)
                if error > max(50, 0.05 * report.cycles):
                    far[number] = (op.name, error / report.cycles)
            compared += 1
            session.close()
    assert compared > 3 * len(operators)
    assert len(far) <= compared / 50, far
    assert all(share <= 0.08 for _, share in far.values()), far
