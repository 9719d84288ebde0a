"""Functions that convert one operator of a file to several nodes."""

from collections.abc import Callable, Mapping

from matloom.frontend.tflite.additions import Additions, FileItem
from matloom.frontend.tflite.extremes import EXTREMES, extreme_nodes
from matloom.frontend.tflite.recurrence import LSTM, lstm_nodes
from matloom.frontend.tflite.svdf import SVDF, svdf_nodes
from matloom.ir.graph import Node

#: Converters by operator name. They raise `Unsupported` if an interpreter must run the operator.
CONVERTERS: Mapping[str, Callable[[FileItem, Additions], list[Node]]] = {
    LSTM: lstm_nodes,
    SVDF: svdf_nodes,
    **dict.fromkeys(EXTREMES, extreme_nodes),
}
