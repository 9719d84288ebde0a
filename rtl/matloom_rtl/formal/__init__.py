"""Formal proofs about the units of a chip, with SymbiYosys: claims that hold in every run.

Use `run`, or `python -m matloom_rtl.formal nano` on the command line.
"""

from matloom_rtl.formal.engine import Result
from matloom_rtl.formal.runner import estimate_seconds, run

__all__ = ["Result", "estimate_seconds", "run"]
