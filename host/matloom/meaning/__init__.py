"""Meaning check: proves that instructions compute their network, without using the planner."""

from matloom.meaning.check import check_meaning
from matloom.meaning.errors import MeaningError

__all__ = ["MeaningError", "check_meaning"]
