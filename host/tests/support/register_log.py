"""A functional model that records a driver's accesses, to replay in a Verilog simulator."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.csr import register
from matloom.device.model.transport import ModelTransport

__all__ = ["RegisterLog"]

_WRITE, _START = 1, 2


class RegisterLog(ModelTransport):
    """Records register writes, and memory before and after each run.

    Members
    -------
    operations:
        Words of 64 bits, {kind[7:0], offset[23:0], value[31:0]}; kind 1 is a write, kind 2 a write
        that starts a run.
    before, after:
        Memory, uint8 [memory_bytes], at each start and end.
    """

    def __init__(self, config: Config, memory_bytes: int) -> None:
        super().__init__(config, memory_bytes)
        self.operations: list[int] = []
        self.before: list[NDArray[np.uint8]] = []
        self.after: list[NDArray[np.uint8]] = []

    def write32(self, address: int, value: int) -> None:
        """Carry out a write and record it, unless it writes CONTROL without a start."""
        start = (address, value) == (register("CONTROL").offset, 1)
        if address != register("CONTROL").offset or start:
            kind = _START if start else _WRITE
            self.operations.append(kind << 56 | address << 32 | value)
        if start:
            self.before.append(self.memory.copy())
        super().write32(address, value)
        if start:
            self.after.append(self.memory.copy())

    def write(self, folder: Path, word_bytes: int = 1) -> None:
        """Write ``operations.hex`` and ``before_N.hex`` for ``$readmemh``, little endian."""
        (folder / "operations.hex").write_text(_as_hex(self.operations))
        for number, memory in enumerate(self.before):
            words = memory.view(f"<u{word_bytes}").tolist()
            (folder / f"before_{number}.hex").write_text(_as_hex(words))


def _as_hex(values: list[int]) -> str:
    return "\n".join(f"{value:x}" for value in values) + "\n"
