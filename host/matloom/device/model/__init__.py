"""The functional model, which executes packed instructions and defines what they mean."""

from matloom.device.model.engine import Engine, EngineFaultError

__all__ = ["Engine", "EngineFaultError"]
