"""Number formats in which the array multiplies, in one table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matloom.arch.config import Config

#: Bits of a weight if a byte holds two, and of an activation of two bytes.
_NARROW_BITS, _WORD_BITS = 4, 16


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One number format, ``<activation>x<weight>``, or a single name if both are the same.

    Members
    -------
    activation, weight:
        Types of the operands, as NumPy and ml_dtypes name them.
    activation_bits, weight_bits:
        Number of bits of an operand in the scratchpad. Two operands of four bits share a byte.
    sums:
        Type of the accumulated sums.
    storage:
        NumPy type in which the host stores tensors of this format, if float32 layers can run in
        this mode; None if they cannot.
    lowered_from:
        Type of the layers to which a precision can give this mode (`passes.choose_modes`); None if
        a precision cannot give it.
    """

    name: str
    activation: str
    weight: str
    activation_bits: int
    weight_bits: int
    sums: str
    storage: str | None = None
    lowered_from: str | None = None

    @property
    def is_floating(self) -> bool:
        """Whether operands are floating-point numbers, in which case sums are fp32."""
        return self.sums == "float32"

    @property
    def is_narrow(self) -> bool:
        """Whether a byte holds two weights; EXEC then updates two accumulator entries at a time."""
        return self.weight_bits == _NARROW_BITS

    def weight_tile_bytes(self, config: "Config") -> int:
        """Return the size of a weight tile in bytes, which is one byte per cell in every mode."""
        return config.tile_bytes

    @property
    def macs_of_two_cells(self) -> int:
        """Multiply-accumulates per cycle of two cells in a column, if operands are integers."""
        if self.is_narrow:
            return 4
        return 1 if self.activation_bits == _WORD_BITS else 2


def _integer(activation_bits: int, weight_bits: int, lowered_from: str | None = None) -> Mode:
    """Return the mode of integers with these numbers of bits."""
    return Mode(
        name=f"i{activation_bits}xi{weight_bits}",
        activation=f"int{activation_bits}",
        weight=f"int{weight_bits}",
        activation_bits=activation_bits,
        weight_bits=weight_bits,
        sums="int32",
        lowered_from=lowered_from,
    )


def _floating(name: str, dtype: str, bits: int, storage: str | None = None) -> Mode:
    """Return a mode of floating-point numbers; `storage` is the dtype of their patterns, if any."""
    return Mode(
        name=name,
        activation=dtype,
        weight=dtype,
        activation_bits=bits,
        weight_bits=bits,
        sums="float32",
        storage=storage,
        lowered_from="float32" if storage else None,
    )


#: Modes; the index of each is its number in the instruction set. NumPy has no bfloat16, so its bit
#: patterns are stored as uint16.
_TABLE = (
    _integer(8, 8),
    _integer(8, 4, lowered_from="int8"),
    _integer(4, 4),
    _integer(16, 8),
    _floating("bf16", "bfloat16", 16, storage="uint16"),
    _floating("fp16", "float16", 16, storage="float16"),
    _floating("fp8_e4m3", "float8_e4m3fn", 8),
    _floating("fp8_e5m2", "float8_e5m2", 8),
)

#: Modes by name.
MODES = {item.name: item for item in _TABLE}

#: Names of the modes; the index of each is its number in the instruction set.
MAC_MODES = tuple(MODES)

#: Names of the modes whose operands are floating-point numbers and whose sums are fp32.
FLOAT_MODES = tuple(item.name for item in _TABLE if item.is_floating)

#: Names of the modes with two weights in a byte, whose EXEC updates two accumulator entries at a
#: time.
NARROW_MODES = tuple(item.name for item in _TABLE if item.is_narrow)

#: NumPy types in which the host stores the tensors of float32 layers that run in fewer bits, by
#: name of the mode.
STORAGE = {item.name: item.storage for item in _TABLE if item.storage is not None}

#: Value of POST's `pre_shift` for scratchpad elements in fp32; for other formats it is the index of
#: their mode.
FP32_FORMAT = len(MAC_MODES)
