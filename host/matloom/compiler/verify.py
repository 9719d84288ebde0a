"""Checks of what phases make, for ``MATLOOM_VERIFY=1``."""

from typing import Any

from matloom.compiler.values import Job

__all__ = ["verify_value"]


def verify_value(phase: str, value: Any, job: Job) -> None:
    """Check the value of a phase."""
