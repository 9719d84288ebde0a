"""A line that changes, drops and repeats bytes, for tests of the host link."""

import random
from dataclasses import dataclass

__all__ = ["Noise"]


@dataclass(kw_only=True)
class Noise:
    """Faults of a line with their probability per byte, applied in sequence.

    Members
    -------
    changed, dropped, repeated:
        Probabilities per byte.
    seed:
        Seed of the faults.
    """

    changed: float = 0.0
    dropped: float = 0.0
    repeated: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes that arrive at the other end."""
        if not (self.changed or self.dropped or self.repeated):
            return data
        passed = bytearray()
        for byte in data:
            if self._random.random() < self.dropped:
                continue
            if self._random.random() < self.changed:
                byte ^= self._random.randrange(1, 256)
            passed += bytes([byte]) * (2 if self._random.random() < self.repeated else 1)
        return bytes(passed)
