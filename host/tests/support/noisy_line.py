"""A line that changes, drops and repeats bytes, for tests of the host link."""

import random
from dataclasses import dataclass

__all__ = ["Noise"]


@dataclass(kw_only=True)
class Noise:
    """Faults of a line by their probability for each byte, applied one after the other.

    Members
    -------
    changed, dropped, repeated:
        Probabilities for each byte.
    seed:
        Of the randomness.
    """

    changed: float = 0.0
    dropped: float = 0.0
    repeated: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def pass_on(self, data: bytes) -> bytes:
        """Return what is left of bytes at the other end."""
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
