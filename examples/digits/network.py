"""The digit network in PyTorch, with its training.

Three 3x3 convolutions of 16 channels, the last two bridged by a residual connection; a 3x3
convolution of stride 2 to 32 channels; the mean over the image; a dense layer to ten classes.
Batch normalisation only helps the training: `folded` returns plain convolutions.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS = 16
WIDE_CHANNELS = 32
CLASSES = 10

_BATCH = 64
_PEAK_LEARNING_RATE = 0.01
_WEIGHT_DECAY = 1e-3
_LABEL_SMOOTHING = 0.05

# Limits of the random distortion of training images, which are 8 pixels wide.
_ROTATION_DEGREES = 12
_SCALING = 0.1
_SHIFT_PIXELS = 0.75


class NormalisedConvolution(nn.Module):
    """A 3x3 convolution padded as TensorFlow's SAME, then batch normalisation; no activation."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        # SAME at stride 2 on an even size needs one row and column in all: below and on the right.
        self.padding = (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1)
        self.convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return the normalised sums, float32 (batch, outputs, height / stride, width / stride)."""
        return self.norm(self.convolution(functional.pad(images, self.padding)))

    def fold_norm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights (outputs, 3, 3, inputs) and biases (outputs,) that include the norm."""
        gain = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
        weights = self.convolution.weight * gain[:, None, None, None]
        bias = self.norm.bias - self.norm.running_mean * gain
        return weights.permute(0, 2, 3, 1).detach().numpy(), bias.detach().numpy()


class DigitNetwork(nn.Module):
    """A residual network for 8x8 images of one channel; returns ten logits for each image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = NormalisedConvolution(1, CHANNELS)
        self.inner = NormalisedConvolution(CHANNELS, CHANNELS)
        self.outer = NormalisedConvolution(CHANNELS, CHANNELS)
        self.widen = NormalisedConvolution(CHANNELS, WIDE_CHANNELS, stride=2)
        self.dense = nn.Linear(WIDE_CHANNELS, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (batch, 10) for float32 images (batch, 1, 8, 8)."""
        stem = functional.relu(self.stem(images))
        residual = self.outer(functional.relu(self.inner(stem)))
        joined = functional.relu(stem + residual)
        wide = functional.relu(self.widen(joined))
        return self.dense(wide.mean(dim=(2, 3)))


def _distort(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return the images, each rotated, scaled and shifted by a random small amount."""
    count, _, _, width = images.shape
    amounts = 2 * torch.rand(4, count, generator=generator) - 1
    angle = amounts[0] * np.deg2rad(_ROTATION_DEGREES)
    scale = 1 + _SCALING * amounts[1]
    # The grid's unit is half the image.
    shift = amounts[2:] * _SHIFT_PIXELS * 2 / width
    cosine, sine = scale * torch.cos(angle), scale * torch.sin(angle)
    rows = torch.stack([cosine, -sine, shift[0], sine, cosine, shift[1]], dim=1)
    grid = functional.affine_grid(rows.reshape(count, 2, 3), images.shape, align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    epochs: int,
    seed: int,
    on_epoch: Callable[[float], None],
) -> DigitNetwork:
    """Train a network on float32 images (n, 8, 8, 1) and return the weights of the last epoch.

    `on_epoch` is called after each epoch with its mean loss. No other data is looked at, so nothing
    is chosen by it. Equal seeds give equal weights on one machine and PyTorch build.
    """
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # The number of threads would change the order of the sums.
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2)
    targets = torch.from_numpy(labels)
    batches = len(inputs) // _BATCH

    network = DigitNetwork()
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, _PEAK_LEARNING_RATE, total_steps=epochs * batches
    )
    for _ in range(epochs):
        total = 0.0
        order = torch.randperm(len(inputs), generator=generator)
        for chosen in order[: batches * _BATCH].split(_BATCH):
            logits = network(_distort(inputs[chosen], generator))
            loss = functional.cross_entropy(
                logits, targets[chosen], label_smoothing=_LABEL_SMOOTHING
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        on_epoch(total / batches)
    return network.eval()


def accuracy(network: DigitNetwork, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of float32 images (n, 8, 8, 1) that the float network classifies rightly."""
    with torch.no_grad():
        logits = network(torch.from_numpy(images).permute(0, 3, 1, 2))
    return float(np.mean(logits.argmax(dim=1).numpy() == labels))
