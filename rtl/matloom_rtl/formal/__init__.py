"""Proofs about the units of a chip, with SymbiYosys: what holds in every cycle of every run.

`run` is the front door; `python -m matloom_rtl.formal nano` the command.
"""

from matloom_rtl.formal.engine import Result
from matloom_rtl.formal.runner import expected, run

__all__ = ["Result", "expected", "run"]
