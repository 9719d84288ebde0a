"""Settings of a board's link: clock, bit rate, memory, name."""

from dataclasses import dataclass

from matloom.arch.link import BAUD, BOARD_BYTES
from matloom.errors import UserError

__all__ = ["LinkSettings"]

#: Minimum length of a bit in cycles: a byte must take longer on the line than in the checksum.
_SHORTEST_BIT = 2

#: Relative tolerance of the bit rate: leaves a sampling margin of a tenth of a bit after ten bits.
_TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """Settings of a host link.

    Members
    -------
    clock_hz:
        Frequency of the clock of the link and the engine.
    board:
        Name of the board, up to 16 ASCII characters.
    memory_base, memory_bytes:
        Bus address and size of external memory.
    baud:
        Bit rate in bits per second.

    Raises
    ------
    ValueError
        The clock has no divisor for the rate within 2 %, or the name is too long or not ASCII.
    """

    clock_hz: int
    board: str
    memory_base: int
    memory_bytes: int
    baud: int = BAUD

    def __post_init__(self):
        made = self.clock_hz / self.divisor
        if self.divisor < _SHORTEST_BIT or abs(made / self.baud - 1) > _TOLERANCE:
            raise UserError(
                f"baud must be the clock ({self.clock_hz} Hz) divided by an integer of "
                f"{_SHORTEST_BIT} or more, within 2 %, not {self.baud}",
                hint="choose another rate or clock",
            )
        if not self.board.isascii() or len(self.board) > BOARD_BYTES:
            raise ValueError(
                f"board must have up to {BOARD_BYTES} characters of ASCII, not {self.board!r}"
            )

    @property
    def divisor(self) -> int:
        """Length of a bit in cycles."""
        return max(1, round(self.clock_hz / self.baud))
