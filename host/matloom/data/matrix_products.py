"""Networks that consist of one matrix product, for measurements."""

import numpy as np

from matloom.ir.attributes import FullyConnected
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor


def product_graph(rows: int, inner: int, columns: int, seed: int = 0, mode: str = "i8xi8") -> Graph:
    """Return a network: int8 (rows, inner) times a constant int8 (inner, columns), to int8.

    In mode i8xi4 the constant holds 4-bit numbers.

    It is a FULLY_CONNECTED over a batch of `rows`, so both operands and the result are in external
    memory. Weights are random; scales keep most results within int8.
    """
    noise = np.random.default_rng(seed)
    largest, spread = (7, 4) if mode == "i8xi4" else (127, 60)
    weights = noise.integers(-largest, largest + 1, (columns, inner), np.int8)
    bias = noise.integers(-1000, 1000, (columns,), np.int32)

    def tensor(name: str, shape: tuple[int, ...], scale: float, data: Array | None) -> Tensor:
        """Return an int8 tensor with a scale and the zero point 0."""
        quantisation = Quantisation(scale=(scale,), zero_point=(0,))
        return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation, data=data)

    tensors = {
        0: tensor("a", (rows, inner), 0.01, None),
        1: tensor("b", (columns, inner), 0.01, weights),
        2: Tensor(name="bias", shape=(columns,), dtype="int32", data=bias),
        3: tensor(
            "c",
            (rows, columns),
            0.01 * 0.01 * spread * float(np.sqrt(inner)),
            None,
        ),
    }
    node = Node(
        op=Op.FULLY_CONNECTED,
        inputs=(0, 1, 2),
        outputs=(3,),
        attributes=FullyConnected(mode=mode),
        index=0,
    )
    return Graph(
        name=f"matmul {rows}x{inner}x{columns}",
        inputs=(0,),
        outputs=(3,),
        tensors=tensors,
        nodes=(node,),
    )
