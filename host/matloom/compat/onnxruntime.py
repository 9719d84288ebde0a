"""Names from the package onnxruntime that inference scripts use."""

from matloom.compat.binding import IOBinding, OrtValue
from matloom.compat.inference_session import PROVIDERS, InferenceSession, NodeArg
from matloom.compat.session_options import (
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
]


def get_available_providers() -> list[str]:
    """Return the names of the execution providers, the preferred one first."""
    return list(PROVIDERS)


get_all_providers = get_available_providers


def get_device() -> str:
    """Return ``"CPU"``: inputs and outputs are NumPy arrays."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Accept a log level; Matloom writes no log."""
