"""The check of meaning: a program's instructions against its network, without the planner."""

from matloom.meaning.check import check_meaning
from matloom.meaning.errors import MeaningError

__all__ = ["MeaningError", "check_meaning"]
