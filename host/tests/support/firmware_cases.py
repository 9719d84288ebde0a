"""Program files for tests of the driver in C, each with something that the others lack."""

from dataclasses import replace

import numpy as np

from matloom import frontend
from matloom.arch.program_file import CONSTANT_ALIGNMENT, DTYPES
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.data.streaming import streaming_network
from matloom.program import HostConstant, HostStep, Program, TensorInfo, VariableInfo
from support.file_edits import FileParts

__all__ = ["firmware_cases"]


def firmware_cases() -> dict[str, bytes]:
    """Return Program files of `nano` by name.

    ``digits`` has a step of the engine and one of the host; ``product`` a repetition; ``streaming``
    variables on the device; ``remembering`` also a variable of the host, with initial values 100 to
    109, and constants; ``sums`` a 32-bit output, which Python's reader refuses for this network.
    """
    digits = compile_network(frontend.load(NETWORK), "nano")
    streaming = compile_network(streaming_network(11, layers=1), "nano")
    return {
        "digits": digits.to_bytes(),
        "product": compile_network(product_graph(3, 20, 10), "nano").to_bytes(),
        "streaming": streaming.to_bytes(),
        "remembering": _remembering(streaming).to_bytes(),
        "sums": _sums(digits),
    }


def _remembering(program: Program) -> Program:
    """Return a program with an additional host variable, and a constant with two scales."""
    before = TensorInfo(name="before", shape=(1, 10), dtype="int8")
    after = replace(before, name="after")
    step = HostStep(operator="RESHAPE", inputs=("before",), outputs=("after",))
    start = -(-len(program.host_data) // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
    data = program.host_data.ljust(start, b"\0") + np.arange(100, 110, dtype=np.int8).tobytes()
    variable = VariableInfo(name="memory", before="before", after="after", initial=start)
    table = HostConstant(
        name="table",
        offset=0,
        shape=(2, 3),
        dtype="int8",
        scales=(0.5, 0.25),
        zero_points=(0, -128),
        axis=0,
    )
    return replace(
        program,
        tensors=(*program.tensors, before, after),
        steps=(*program.steps, step),
        variables=(*program.variables, variable),
        constants=(*program.constants, table, replace(table, name="after 1", shape=(2,))),
        host_data=data,
    )


def _sums(program: Program) -> bytes:
    """Return a file whose engine step outputs 32-bit sums."""
    parts = FileParts.of(program.to_bytes())
    at = [info.name for info in program.tensors].index("logits")
    for word, value in (("dtype", DTYPES.index("int32")), ("quantised", 0), ("scale", 0.0)):
        parts = parts.with_word("tensors", at, word, value)
    return parts.with_word("tensors", at, "zero_point", 0).to_bytes()
