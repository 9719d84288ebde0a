"""Public API of Matloom: load a network, compile it, open a device.

Names are imported on first use, so that `import matloom` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matloom import compat as compat
    from matloom import ops as ops
    from matloom import pre as pre
    from matloom.arch.config import Config as Config
    from matloom.compat.inference_session import InferenceSession as InferenceSession
    from matloom.compat.interpreter import Interpreter as Interpreter
    from matloom.device.errors import DeviceClosedError as DeviceClosedError
    from matloom.device.errors import DeviceError as DeviceError
    from matloom.device.open import open_device as open_device
    from matloom.device.waves import Waves as Waves
    from matloom.kernels.registered import register_operator as register_operator
    from matloom.kernels.registered import unregister_operator as unregister_operator
    from matloom.program import Program as Program
    from matloom.quantiser.quantise import quantise as quantise
    from matloom.runtime import Session as Session
    from matloom.runtime import compile as compile
    from matloom.runtime import load as load
    from matloom.tools.evaluate import evaluate as evaluate
    from matloom.tools.precision import precision_report as precision_report

__version__ = "0.1.0"

#: Module that defines each public name; type checkers see the imports above instead.
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
    "quantise": "matloom.quantiser.quantise",
    "precision_report": "matloom.tools.precision",
}

#: Submodules that become attributes of `matloom`; they are imported on first use.
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
