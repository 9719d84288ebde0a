"""Twenty networks of PyTorch: layers that people use, each in a small network."""

import torch
from torch import nn
from torch.nn import functional


def block(inputs, outputs, size=3, stride=1, groups=1, dilation=1):
    """Return a convolution, batch normalisation and a ReLU."""
    padding = dilation * (size // 2)
    layer = nn.Conv2d(inputs, outputs, size, stride, padding, dilation, groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    """A residual block: the sum of two branches."""

    def __init__(self):
        super().__init__()
        self.first, self.dense = block(3, 8), nn.Linear(8, 5)
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))

    def forward(self, x):
        """Return the output."""
        x = self.first(x)
        x = functional.relu(x + self.second(x))
        return self.dense(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Concatenation(nn.Module):
    """Two branches, concatenated."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.last = block(3, 8), block(3, 4, 1), block(12, 6)

    def forward(self, x):
        """Return the output."""
        return self.last(torch.cat([self.wide(x), self.narrow(x)], 1)).mean((2, 3))


class Recurrent(nn.Module):
    """A recurrent layer; returns its last output."""

    def __init__(self, kind):
        super().__init__()
        self.cells, self.dense = kind(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        """Return the output."""
        return self.dense(self.cells(x)[0][:, -1])


class Attention(nn.Module):
    """Layer normalisation, then attention with two heads."""

    def __init__(self):
        super().__init__()
        self.norm, self.split, self.join = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        """Return the output."""
        batch, length, width = x.shape
        parts = self.split(self.norm(x)).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        made = functional.scaled_dot_product_attention(*parts.unbind(0))
        return x + self.join(made.transpose(1, 2).reshape(batch, length, width))


class Segmentation(nn.Module):
    """A small U-Net: downsampling, upsampling and a skip connection."""

    def __init__(self):
        super().__init__()
        self.down, self.deep = block(3, 8), block(8, 16, stride=2)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.join, self.last = block(16, 4), nn.Conv2d(4, 1, 1)

    def forward(self, x):
        """Return the output."""
        down = self.down(x)
        joined = torch.cat([down, self.up(self.deep(down))], 1)
        return torch.sigmoid(self.last(self.join(joined)))


class SqueezeExcite(nn.Module):
    """Channels scaled by a gate."""

    def __init__(self):
        super().__init__()
        self.first = block(3, 8)
        self.gate = nn.Sequential(nn.Linear(8, 2), nn.SiLU(), nn.Linear(2, 8), nn.Hardsigmoid())

    def forward(self, x):
        """Return the output."""
        x = self.first(x)
        return functional.hardswish(x * self.gate(x.mean((2, 3)))[:, :, None, None]).amax((2, 3))


class Upsampling(nn.Module):
    """Three ways of upsampling by two."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, padding=1)

    def forward(self, x):
        """Return the output."""
        smooth = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        shuffled = functional.pixel_shuffle(self.first(x), 2)
        return shuffled + smooth + functional.interpolate(x, scale_factor=2)


class Words(nn.Module):
    """An embedding of words, averaged."""

    def __init__(self):
        super().__init__()
        self.table, self.dense = nn.Embedding(20, 8), nn.Linear(8, 4)

    def forward(self, x):
        """Return the output."""
        return functional.log_softmax(self.dense(self.table(x).mean(1)), -1)


class Detection(nn.Module):
    """Slices of channels, concatenated and split again."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU())
        self.second = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        """Return the output."""
        left, right = self.first(x).chunk(2, 1)
        pooled = functional.max_pool2d(right, 5, 1, 2)
        made = torch.cat([self.second(left), right, pooled], 1)
        return made.flatten(2).transpose(1, 2).split([4, 8], 2)


IMAGE, SEQUENCE, TOKENS = (1, 3, 16, 16), (1, 10, 6), (1, 7, 16)

#: By name: what makes the network, and the shape of its input.
NETWORKS = {
    "dense": (lambda: [nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)], (1, 10)),
    "convolutions": (
        lambda: [
            *(block(3, 8), nn.MaxPool2d(2), block(8, 16), nn.AdaptiveAvgPool2d(1)),
            *(nn.Flatten(), nn.Linear(16, 4), nn.Softmax(-1)),
        ],
        IMAGE,
    ),
    "residual": (lambda: [Residual()], IMAGE),
    "depthwise": (
        lambda: [block(3, 8), block(8, 8, groups=8), nn.Conv2d(8, 4, 1), nn.ReLU6()],
        IMAGE,
    ),
    "dilated": (lambda: [block(3, 8, dilation=2), block(8, 8, dilation=3)], IMAGE),
    "transposed": (
        lambda: [nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 3, 3, 2, 1, 1)],
        IMAGE,
    ),
    "concatenation": (lambda: [Concatenation()], IMAGE),
    "lstm": (lambda: [Recurrent(nn.LSTM)], SEQUENCE),
    "gru": (lambda: [Recurrent(nn.GRU)], SEQUENCE),
    "rnn": (lambda: [Recurrent(nn.RNN)], SEQUENCE),
    "attention": (lambda: [Attention()], TOKENS),
    "transformer": (
        lambda: [nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")],
        TOKENS,
    ),
    "segmentation": (lambda: [Segmentation()], IMAGE),
    "squeeze and excite": (lambda: [SqueezeExcite()], IMAGE),
    "upsampling": (lambda: [Upsampling()], IMAGE),
    "embedding": (lambda: [Words()], (1, 6)),
    "detection": (lambda: [Detection()], IMAGE),
    "one-dimensional": (
        lambda: [
            *(nn.Conv1d(6, 8, 3, padding="same"), nn.BatchNorm1d(8), nn.GELU()),
            *(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(40, 3)),
        ],
        (1, 6, 10),
    ),
    "group norm": (
        lambda: [
            *(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.LeakyReLU(0.1), nn.InstanceNorm2d(8)),
            *(nn.ReflectionPad2d(1), nn.AvgPool2d(3, 2, 1), nn.PReLU(8)),
        ],
        IMAGE,
    ),
    "three-dimensional": (
        lambda: [nn.Conv3d(2, 4, 3), nn.ELU(), nn.Flatten(), nn.Dropout(0.3)],
        (1, 2, 4, 5, 6),
    ),
}


def network(name):
    """Return the network with this name, in evaluation mode, and an input for it."""
    torch.manual_seed(0)
    parts, shape = NETWORKS[name]
    made = nn.Sequential(*parts()).eval()
    given = torch.randint(0, 20, shape) if name == "embedding" else torch.randn(shape)
    return made, given
