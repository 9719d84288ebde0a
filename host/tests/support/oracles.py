"""TensorFlow Lite Micro and LiteRT, called directly, as references for tests."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from matloom.ir.graph import Array

__all__ = ["litert", "micro", "micro_session"]


def micro(content: bytes, inputs: Sequence[Array], outputs: int) -> list[Array]:
    """Return a network's outputs from TensorFlow Lite Micro, in a new interpreter."""
    return micro_session(content, outputs)(*inputs)


def micro_session(content: bytes, outputs: int = 1) -> Callable[..., list[Array]]:
    """Return a function from inputs to outputs: calls of one TensorFlow Lite Micro interpreter.

    Variables of the network keep their values from call to call.
    """
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=2**22)

    def run(*inputs: Array) -> list[Array]:
        for at, array in enumerate(inputs):
            interpreter.set_input(array, at)
        interpreter.invoke()
        return [np.array(interpreter.get_output(at)) for at in range(outputs)]

    return run


def litert(content: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Return a network's outputs from LiteRT's reference kernels; inputs may have other shapes."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    details = interpreter.get_input_details()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [
        np.empty(detail["shape"], detail["dtype"])
        if 0 in detail["shape"]
        else np.array(interpreter.get_tensor(detail["index"]))
        for detail in interpreter.get_output_details()
    ]
