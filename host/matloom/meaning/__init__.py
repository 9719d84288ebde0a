"""Meaning check: proves that instructions compute their network, without using the planner.

It runs them on probes, numbers for unknown bytes (`terms`), and compares the results with the
operators' definitions on the same probes.
"""

from matloom.meaning.check import check_meaning
from matloom.meaning.errors import MeaningError

__all__ = ["MeaningError", "check_meaning"]
