"""Quantises float networks on calibration samples: from a float model file to integers."""

from matloom.quantiser.options import Options
from matloom.quantiser.page import page_of
from matloom.quantiser.quantise import QuantisedNetwork, quantise
from matloom.quantiser.report import QuantisationReport

__all__ = ["Options", "QuantisationReport", "QuantisedNetwork", "page_of", "quantise"]
