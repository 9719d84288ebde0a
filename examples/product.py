"""Multiplies two matrices on the engine: exact sums, requantised bytes, and bf16.

python examples/product.py --device rtl --config small
"""

import click
import numpy as np

from matloom import ops
from matloom.arch.numerics import quantize_multiplier
from matloom.device.open import DEVICES


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
def main(device: str, config: str) -> None:
    """Multiply matrices of int8 and of float32, and compare with NumPy."""
    generator = np.random.default_rng(0)
    a = generator.integers(-128, 128, (100, 60), np.int8)
    b = generator.integers(-128, 128, (60, 30), np.int8)

    sums = ops.matmul(a, b, device=device, config=config)
    expected = a.astype(int) @ b.astype(int)
    assert np.array_equal(sums, expected)
    print(f"sums: {sums.dtype} {sums.shape}, equal to NumPy's")

    # A real scale becomes 31 bits and a power of two, as in a TFLite layer.
    multiplier, shift = quantize_multiplier(0.001)
    scaled = ops.matmul(a, b, multiplier=multiplier, shift=shift, device=device, config=config)
    assert np.abs(scaled - np.clip(0.001 * expected, -128, 127)).max() <= 1
    print(f"requantised: {scaled.dtype}, within 1 of 0.001 times the sums")

    # Without a configuration: `reference`, with the mode added.
    x = generator.standard_normal((20, 50)).astype(np.float32)
    product = ops.matmul(x, x.T, mode="bf16")
    error = np.abs(product - x @ x.T).max()
    assert error < 0.5
    print(f"bf16: {product.dtype}, largest difference from float32 {error:.3f}")


if __name__ == "__main__":
    main()
