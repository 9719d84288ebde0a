"""Copies tensors to external memory before a command buffer runs, and from it afterwards."""

from collections.abc import Mapping

import numpy as np

from matloom.arch.isa import Region
from matloom.arch.numerics import from_limbs
from matloom.device.driver import Driver
from matloom.ir.graph import Array
from matloom.program import Binding, EngineStep


def write_inputs(driver: Driver, step: EngineStep, values: Mapping[str, Array]) -> None:
    """Write the inputs of an engine step (one command buffer) from `values`, tensors by name.

    Variables in region ARENA are left out, because they are in external memory already.
    """
    for binding in step.inputs:
        if binding.region is not Region.ARENA:
            data = np.ascontiguousarray(values[binding.name], binding.dtype).tobytes()
            driver.write_region(binding.region, binding.offset, data)


def read_outputs(driver: Driver, step: EngineStep) -> dict[str, Array]:
    """Return the outputs of an engine step (one command buffer) by name.

    Variables in region ARENA are left out, because they stay in external memory.
    """
    outputs = (binding for binding in step.outputs if binding.region is not Region.ARENA)
    return {binding.name: _read_tensor(driver, binding) for binding in outputs}


def _read_tensor(driver: Driver, binding: Binding) -> Array:
    """Return a tensor from its place in external memory; int32 is stored in byte limbs."""
    dtype = np.dtype(binding.dtype)
    size = int(np.prod(binding.shape)) * dtype.itemsize
    raw = driver.read_region(binding.region, binding.offset, size)
    if binding.dtype == "int32":
        # The engine stores bytes: limbs of sums.
        limbs = np.frombuffer(raw, np.int8).reshape(-1, *binding.shape)
        return np.asarray(from_limbs(limbs.astype(np.int32)))
    return np.frombuffer(raw, dtype).reshape(binding.shape)
