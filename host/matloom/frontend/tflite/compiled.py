"""Recognises model files that a vendor's compiler turned into code for its accelerator."""

from typing import Any

import tflite

from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.flatbuffer import enum_name, operator_number, text

#: Accelerators, by the name of the custom operator that contains their compiled code.
_ACCELERATORS = {
    "ethos-u": "Arm's Ethos-U, by Vela",
    "edgetpu-custom-op": "Google's Edge TPU",
    "NeutronGraph": "NXP's eIQ Neutron",
    "DISPATCH_OP": "an accelerator, by LiteRT",
}


def code_name(code: Any) -> str:
    """Return the name of an operator code of a file, or of its custom operator.

    Raises
    ------
    ModelError
        The operator is code for an accelerator.
    """
    number = operator_number(code)
    if number == tflite.BuiltinOperator.CUSTOM:
        return _require_portable(text(code.CustomCode()) or "CUSTOM")
    return enum_name(tflite.BuiltinOperator, number)


def _require_portable(custom_code: str) -> str:
    """Return `custom_code`; raise `ModelError` if such an operator is code for an accelerator."""
    if custom_code in _ACCELERATORS:
        raise ModelError(
            f"the network was compiled for {_ACCELERATORS[custom_code]}: its operator "
            f"{custom_code!r} runs nowhere else",
            hint="give the .tflite file from which it was compiled",
        )
    return custom_code
