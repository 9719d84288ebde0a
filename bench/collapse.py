"""A network that collapses when quantised with one scale per tensor, and what rescues it.

    python bench/collapse.py                    # into docs/results/collapse.json

Trains a network like MobileNetV2 on rendered letters in PyTorch: expansions, depthwise layers and
projections, with batch normalisation folded into them. The gains of the normalisation start from
a log-normal distribution, so that channels have very different ranges, as they have in large
networks after long training. The held-out letters use fonts that the training letters do not.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from quantise_data import draw_letters
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import matloom
from matloom import frontend
from matloom.quantiser import QuantisationReport
from support.reports import parse_with_report, write_report

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "collapse.json"
CALIBRATION = 100

#: Ways of quantising, by name: options of `matloom.quantise`.
WAYS = {
    "per channel": {},
    "per channel, not equalised": {"equalise": False},
    "per tensor": {"weight_scales": "per-tensor"},
    "per tensor, not equalised": {"weight_scales": "per-tensor", "equalise": False},
    "per tensor, to nearest, nothing else": {
        "weight_scales": "per-tensor",
        "equalise": False,
        "adaptive_rounding": False,
        "correct_bias": False,
        "calibration": "minmax",
    },
    "per tensor, to nearest, equalised": {
        "weight_scales": "per-tensor",
        "equalise": True,
        "adaptive_rounding": False,
        "correct_bias": False,
        "calibration": "minmax",
    },
}


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list:
    """Return a convolution without a bias, followed by batch normalisation."""
    padding = kernel // 2
    made = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return [made, nn.BatchNorm2d(outputs)]


class Block(nn.Module):
    """Expansion by 4, depthwise layer, projection; with a shortcut if shapes are the same."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        self.shortcut = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *convolution(inputs, wide, 1),
            nn.ReLU(),
            *convolution(wide, wide, 3, stride, wide),
            nn.ReLU(),
            *convolution(wide, outputs, 1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return the image after the block, (batch, outputs, height, width)."""
        made = self.layers(image)
        return image + made if self.shortcut else made


class Network(nn.Module):
    """A small MobileNetV2: ten logits for images (batch, 1, 28, 28)."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *convolution(1, 8, 3, 2),
            nn.ReLU(),
            Block(8, 8, 1),
            Block(8, 16, 2),
            Block(16, 16, 1),
            Block(16, 24, 2),
            *convolution(24, 64, 1),
            nn.ReLU(),
        )
        self.dense = nn.Linear(64, 10)
        for block in self.layers:
            for place in (1, 4) if isinstance(block, Block) else ():
                gain = block.layers[place].weight
                nn.init.normal_(gain, std=spread)
                gain.data.exp_()

    def forward(self, image: Tensor) -> Tensor:
        """Return logits (batch, 10) for images (batch, 1, 28, 28)."""
        return self.dense(self.layers(image).mean(dim=(2, 3)))


def train(images: np.ndarray, labels: np.ndarray, *, epochs: int, spread: float) -> Network:
    """Return a network trained on images (n, 1, 28, 28)."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = Network(spread)
    inputs, targets = torch.from_numpy(images), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=1e-4)
    steps = epochs * (len(inputs) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(inputs))[: len(inputs) // 64 * 64].split(64):
            loss = nn.functional.cross_entropy(network(inputs[chosen]), targets[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def fold_normalisations(network: nn.Module) -> nn.Module:
    """Return the network with each normalisation folded into the convolution before it."""
    for holder in list(network.modules()):
        if not isinstance(holder, nn.Sequential):
            continue
        for place, layer in enumerate(holder):
            if isinstance(layer, nn.BatchNorm2d):
                holder[place - 1] = fuse_conv_bn_eval(holder[place - 1], layer)
                holder[place] = nn.Identity()
    return network


def figures(report: QuantisationReport) -> dict:
    """Return the figures of a quantisation report that are stored, by name."""
    (output,) = report.outputs
    return {
        "accuracy": output.accuracy.value,
        "float": output.accuracy_float.value,
        "agreement": output.agreement.value,
        "sqnr_db": output.sqnr_db,
        "mcnemar": output.mcnemar,
        "samples": output.samples,
    }


def main() -> None:
    """Train, quantise in each way, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--train", type=int, default=3000, help="letters to train on")
    parser.add_argument("--test", type=int, default=1000, help="letters to measure on")
    parser.add_argument("--spread", type=float, default=1.5, help="of the logarithms of gains")
    part = ("epochs", "train", "test", "spread")
    options = parse_with_report(parser, REPORT, part)
    known, held_out = draw_letters(max(options.train, options.test + CALIBRATION))
    images = known.x.transpose(0, 3, 1, 2)
    network = train(images, known.y, epochs=options.epochs, spread=options.spread)
    program = torch.export.export(fold_normalisations(network), (torch.zeros(1, 1, 28, 28),))
    graph = frontend.load_floats(program)
    samples = held_out.x.transpose(0, 3, 1, 2)[: CALIBRATION + options.test, np.newaxis]
    labels = held_out.y[: len(samples)]
    report = {"spread": options.spread, "rows": {}}
    for name, choices in WAYS.items():
        quantised = matloom.quantise(graph, samples, labels=labels, samples=CALIBRATION, **choices)
        report["rows"][name] = figures(quantised.report)
        print(name, report["rows"][name], flush=True)
        write_report(options.report, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
