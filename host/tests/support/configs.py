"""Random configurations, small enough to build a simulator of."""

import random
from dataclasses import replace

from matloom.arch.config import Config, ConfigError
from matloom.arch.modes import FLOAT_MODES, NARROW_MODES

__all__ = ["WIDEST", "random_config"]

#: Every field of every instruction reaches the last value of its bits here.
WIDEST = Config(
    rows=16,
    columns=4,
    broadcast_group=4,
    lanes=4,
    mac_modes=("i8xi8", "i8xi4", "i4xi4", "i16xi8"),
    spad_bytes=1 << 24,
    spad_banks=16,
    acc_bytes=(1 << 15) * 16,
    timestamps=256,
    channel_tables=1,
)

#: Sides of the array that a random configuration has.
_SIDES = range(4, 33, 4)

_SPAD_KIB = (16, 16, 16, 32, 64, 128)


def random_config(generator: random.Random) -> Config:
    """Draw a configuration: any shape of array, 1 to 8 banks, and random optional parts."""
    while True:
        try:
            config = _draw(generator)
        except ConfigError:
            continue
        return replace(config, channel_tables=int(generator.random() < 0.5))


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _modes(generator: random.Random) -> tuple[str, ...]:
    kind = generator.choice(("plain", "narrow", "float", "both"))
    words = generator.choice(((), ("i16xi8",)))
    if kind == "float":
        others = generator.sample(FLOAT_MODES, generator.randint(1, len(FLOAT_MODES)))
    elif kind == "narrow":
        others = generator.sample(NARROW_MODES, generator.randint(1, len(NARROW_MODES)))
    else:
        others = []
    return ("i8xi8", *words, *others)


def _draw(generator: random.Random) -> Config:
    rows, columns = generator.choice(_SIDES), generator.choice(_SIDES)
    banks = generator.choice((1, 2, 3, 4, 5, 8))
    bank_bytes = generator.choice(_SPAD_KIB) * 1024 >> banks.bit_length() - 1
    entries = 1 << generator.randint(4, 12)
    return Config(
        rows=rows,
        columns=columns,
        broadcast_group=generator.choice(_divisors(columns)),
        mac_modes=_modes(generator),
        float_rows=1 << generator.randint(0, 4),
        weight_rows=generator.choice((1, rows, generator.choice(_divisors(rows)))),
        spad_bytes=banks * bank_bytes,
        spad_banks=banks,
        acc_bytes=entries * 4 * columns,
        lanes=generator.choice(_divisors(columns)),
        tables=generator.randint(0, 2),
        products=generator.randint(0, 4),
        bus_bits=generator.choice((32, 64, 128)),
        outstanding=generator.choice((1, 2, 8)),
        burst_beats=generator.choice((1, 4, 16, 32)),
        queue_depth=generator.choice((1, 2, 4, 8)),
        timestamps=generator.choice((0, 2, 64, 256)),
        windows=generator.choice((0, 1, 1, 2, 2)),
        paired_windows=int(generator.random() < 0.8),
        maximum=int(generator.random() < 0.8),
        checks=int(generator.random() < 0.8),
        counters=generator.choice((0, 1, 2, 2)),
        address_first=int(generator.random() < 0.3),
        time_limit=generator.randint(0, 1),
        element_stride=int(generator.random() < 0.8),
        parity=generator.randint(0, 1),
        softmax=generator.randint(0, 1),
        zero_points=int(generator.random() < 0.5),
        pooling=generator.randint(0, 1),
        curves=generator.randint(0, 1),
        transposed_weights=int(rows == columns and generator.random() < 0.5),
    )
