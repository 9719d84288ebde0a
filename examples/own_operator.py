"""Runs an operator of your own: by its kernel on the host, then by its stages on the engine.

python examples/own_operator.py --config small
"""

import click
import numpy as np
import tflite

import matloom
from matloom.device.open import DEVICES
from matloom.frontend import write
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.cut import plain_model, serialise


def file_with_custom_operator() -> bytes:
    """Return a file such as converters write, with the custom operator `Positive` of int8."""
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.1,), zero_point=(-10,))
    image = builder.input("image", (1, 8, 8, 16), "int8", scale)
    _, content = write(builder.graph(builder.add(Op.RELU, [image], name="positive")))
    model = plain_model(content, "ai-edge-litert")
    for code in model.operatorCodes:
        code.builtinCode = code.deprecatedBuiltinCode = tflite.BuiltinOperator.CUSTOM
        code.customCode = b"Positive"
    return serialise(model)


def shape(x):
    """Return the shape of the output; the operator's attributes would be keyword arguments."""
    return x


def kernel(use, x):
    """Return the operator's output, computed in NumPy: values below zero become zero.

    `use` has the quantisation of inputs and outputs, and the operator's attributes.
    """
    return np.maximum(x, np.int8(use.inputs[0].zero_point))


def stages(use, builder, x):
    """Build the operator from Matloom's own, which run on the engine; return its output."""
    return builder.add(Op.RELU, [x])


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
def main(device: str, config: str) -> None:
    """Register the operator without stages and with them, and run a network that has it."""
    content = file_with_custom_operator()
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 16), np.int8)
    for made in (None, stages):
        matloom.register_operator("Positive", shape=shape, kernel=kernel, stages=made)
        try:
            with matloom.load(content, device=device, config=config) as session:
                result = session.run(image)
                (layer,) = session.program.layers
        finally:
            matloom.unregister_operator("Positive")
        assert np.array_equal(result, np.maximum(image, -10))
        print(f"{layer.operator} runs on the {layer.where} {layer.reason and f'({layer.reason})'}")


if __name__ == "__main__":
    main()
