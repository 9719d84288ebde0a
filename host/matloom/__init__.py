"""Public API of Matloom: load a network, compile it, open a device.

Names are imported on first use, so that `import matloom` is fast.
"""

from importlib import import_module

__version__ = "0.1.0"

#: Module that defines each public name.
_HOMES = {
    "Config": "matloom.arch.config",
    "DeviceClosedError": "matloom.device.errors",
    "DeviceError": "matloom.device.errors",
    "InferenceSession": "matloom.compat.inference_session",
    "Interpreter": "matloom.compat.interpreter",
    "Program": "matloom.program",
    "Session": "matloom.runtime",
    "Waves": "matloom.device.waves",
    "compile": "matloom.runtime",
    "evaluate": "matloom.tools.evaluate",
    "load": "matloom.runtime",
    "open_device": "matloom.device.open",
    "register_operator": "matloom.kernels.registered",
    "unregister_operator": "matloom.kernels.registered",
    "quantise": "matloom.quantiser",
    "precision_report": "matloom.tools.precision",
}

#: Modules available as attributes.
_MODULES = ("compat", "ops", "pre")

__all__ = ["__version__", *sorted((*_HOMES, *_MODULES))]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"matloom.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'matloom' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
