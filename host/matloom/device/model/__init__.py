"""The functional model: executes packed instructions, the ISA's living definition."""

from matloom.device.model.engine import Engine, EngineFaultError

__all__ = ["Engine", "EngineFaultError"]
