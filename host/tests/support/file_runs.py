"""Outcome of a file: one message, or a run that stays within its regions."""

import contextlib
import warnings

import numpy as np

from matloom import frontend
from matloom.arch.config import load_config
from matloom.arch.isa import WRITABLE_REGIONS, Region
from matloom.arch.program_file import OPERATORS
from matloom.compiler import CompileError, compile_network
from matloom.device.driver import Driver
from matloom.device.model.transport import ModelTransport
from matloom.errors import UserError
from matloom.frontend.errors import ModelError
from matloom.ir.graph import Array
from matloom.kernels.moves import IndexRangeError
from matloom.kernels.reference import InterpreterError
from matloom.program import HostStep, Program, ProgramError, TensorInfo
from matloom.program.describe_state import variable_bytes
from matloom.program.verify import VerifyError
from matloom.runtime import Session

__all__ = ["StrayError", "network_outcome", "onnx_outcome", "program_outcome"]

_PAGE = 4096
#: Bytes that nothing may touch, after the last region.
_GUARD = 0xA5
#: Operators that other libraries run, in processes that a damaged model can end.
_FOREIGN = next(operator.name for operator in OPERATORS if operator.name == "REFERENCE")


class StrayError(AssertionError):
    """An access outside the regions of a program."""


class _Recorder(ModelTransport):
    """The functional model in a memory with the regions and a guard page after them."""

    def __init__(self, program: Program) -> None:
        self._spans: list[tuple[Region, int, int]] = []
        end = 0
        for region in Region:
            size = program.region_bytes[region]
            self._spans.append((region, end, end + size))
            end += -(-size // _PAGE) * _PAGE
        arena = next(start for region, start, _end in self._spans if region is Region.ARENA)
        sizes = variable_bytes(program)
        #: Of variables in region ARENA, the only bytes there that the host may touch.
        self._state = [
            (arena + item.place.offset, arena + item.place.offset + sizes[item.name])
            for item in program.variables
            if item.place is not None
        ]
        super().__init__(program.config, end + _PAGE)
        self.memory[end:] = _GUARD

    def _within(self, address: int, size: int, regions: tuple[Region, ...]) -> None:
        for region, start, end in self._spans:
            if region in regions and start <= address and address + size <= end:
                return
        if (address, address + size) in self._state:
            return
        raise StrayError(f"{size} bytes at {address:#x} must lie in one of {regions}")

    def read_block(self, address: int, size: int) -> bytes:
        self._within(address, size, (Region.OUTPUT,))
        return super().read_block(address, size)

    def write_block(self, address: int, data: bytes) -> None:
        self._within(address, len(data), (Region.PROGRAM, Region.INPUT))
        super().write_block(address, data)

    def _run(self) -> None:
        before = self._constant()
        super()._run()
        if self._constant() != before:
            raise StrayError("the engine must write to regions OUTPUT and ARENA alone")

    def _constant(self) -> list[bytes]:
        """Return the memory that the engine must not change: other regions, gaps, the guard."""
        kept, last = [], 0
        for region, start, end in self._spans:
            kept.append(self.memory[last:start].tobytes())
            if region not in WRITABLE_REGIONS:
                kept.append(self.memory[start:end].tobytes())
            last = end
        return [*kept, self.memory[last:].tobytes()]


def program_outcome(data: bytes) -> str | None:
    """Return the message that refuses a Program file, or None if it ran twice.

    Operators of a reference interpreter are loaded but not run.

    Raises
    ------
    StrayError
        An access outside the regions.
    Exception
        Any other failure: a defect.
    """
    try:
        program = Program.from_bytes(data)
        if not _foreign(program):
            _run(program)
    except (ProgramError, VerifyError) as error:
        return _sentence(error)
    return None


def network_outcome(data: bytes, config: str = "nano") -> str | None:
    """Return the message that refuses a TensorFlow Lite file, or None if it ran twice."""
    try:
        program = compile_network(frontend.load(data), load_config(config), check="none")
        if not _foreign(program):
            _run(program)
    except (ModelError, CompileError, InterpreterError) as error:
        return _sentence(error)
    return None


def onnx_outcome(data: bytes, config: str = "nano") -> str | None:
    """Return the message that refuses an ONNX file, or None if it compiled."""
    try:
        compile_network(frontend.load(data), load_config(config), check="none")
    except UserError as error:
        sentence = _sentence(error)
        if "\n" in sentence:
            raise AssertionError(f"an error must be one line, not {sentence!r}") from None
        return sentence
    return None


def _foreign(program: Program) -> bool:
    steps = (step for step in program.steps if isinstance(step, HostStep))
    return any(step.operator == _FOREIGN for step in steps)


def _sentence(error: Exception) -> str:
    text = str(error)
    if not text.strip() or len(text) > 4000:
        raise AssertionError(f"an error must be a sentence, not {text[:100]!r}")
    return text


def _run(program: Program) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        driver = Driver(_Recorder(program), program.config)
        session = Session(program, driver, "model")
        noise = np.random.default_rng(0)
        inputs = {info.name: _array(info, noise) for info in program.inputs}
        # A random index may choose no row of a table.
        with contextlib.suppress(IndexRangeError):
            for _call in range(2):
                session.run(inputs)
        session.restore(session.state)
        session.report().to_json()


def _array(info: TensorInfo, noise: np.random.Generator) -> Array:
    size = int(np.prod(info.shape, dtype=np.int64)) * np.dtype(info.dtype).itemsize
    if info.dtype.startswith("float"):
        return noise.standard_normal(info.shape).astype(info.dtype)
    return np.frombuffer(noise.bytes(size), info.dtype).reshape(info.shape)
