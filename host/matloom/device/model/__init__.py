"""The functional model: executes packed instructions, the ISA's living definition."""

from matloom.device.model.engine import Engine, EngineFault

__all__ = ["Engine", "EngineFault"]
