"""Cost of running a network: cycles, utilisation, layers, stalls, loops, host steps."""

from matloom.report.layers import LayerReport, LoopReport
from matloom.report.report import Report, make_report
from matloom.report.totals import add_iteration, with_loop

__all__ = ["LayerReport", "LoopReport", "Report", "add_iteration", "make_report", "with_loop"]
