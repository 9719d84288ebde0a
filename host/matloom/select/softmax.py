"""SOFTMAX of rows, which POST computes by a table of exponentials."""

from dataclasses import replace

import numpy as np

from matloom.arch.isa import Destination, Opcode, Source, largest
from matloom.arch.numerics import Rounding
from matloom.arch.softmax import SUM_BITS
from matloom.kernels.softmax import exponentials
from matloom.select.context import Context, NotOnEngine
from matloom.select.elementwise import vector_stage
from matloom.select.stage import VectorStage

#: Maximum number of elements of a row: its sum must fit, and POST reads it in one step.
_MAX_ROW = min((1 << SUM_BITS) - 1, largest(Opcode.POST, "source_pitch"))


def softmax_stage(context: Context) -> VectorStage:
    """Return the stage of SOFTMAX along the last axis."""
    if not context.config.softmax:
        raise NotOnEngine("it needs softmax = 1, and the configuration has softmax = 0")
    row = context.output.shape[-1]
    if row > _MAX_ROW:
        raise NotOnEngine(f"SOFTMAX must be of at most {_MAX_ROW} elements, not {row}")
    table = exponentials(context.graph, context.node).astype("<u4")
    post: dict[str, int] = {
        "source": Source.SPAD,
        "destination": Destination.SPAD,
        "rounding": Rounding.DOUBLE,
    }
    stage = vector_stage(context, ((0, post),), context.sources[:1], "")
    entries = np.frombuffer(table.tobytes(), np.uint8)
    return replace(stage, tile_unit=row, period=row, is_softmax=True, table=entries)
