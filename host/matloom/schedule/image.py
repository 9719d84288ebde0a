"""The constants of a program: weights and parameters, stored without duplicates."""

_ALIGNMENT = 64


class ProgramImage:
    """Growing sequence of bytes in which equal constants are stored once."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._known: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """Return the offset of `data`, a multiple of 64; append it if it is new."""
        if data not in self._known:
            self._data.extend(bytes(-len(self._data) % _ALIGNMENT))
            self._known[data] = len(self._data)
            self._data.extend(data)
        return self._known[data]

    def fork(self) -> "ProgramImage":
        """Return a copy to which bytes can be added independently."""
        copy = ProgramImage()
        copy.replace_with(self)
        return copy

    def replace_with(self, other: "ProgramImage") -> None:
        """Replace the contents by those of another image."""
        self._data, self._known = bytearray(other._data), dict(other._known)

    def __bytes__(self) -> bytes:
        """Return all constants."""
        return bytes(self._data)
