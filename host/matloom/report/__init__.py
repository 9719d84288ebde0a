"""Cost of running a network: cycles, utilisation, layers, stalls, loops, host steps."""

from matloom.report.layers import LayerReport, LoopReport
from matloom.report.report import Report, make_report
from matloom.report.totals import added, with_loop

__all__ = ["LayerReport", "LoopReport", "Report", "added", "make_report", "with_loop"]
