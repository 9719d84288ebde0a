"""The functional model: executes packed instructions; it is the living definition of the ISA."""

from matloom.device.model.engine import Engine, EngineFaultError

__all__ = ["Engine", "EngineFaultError"]
