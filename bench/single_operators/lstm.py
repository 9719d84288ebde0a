"""Random UNIDIRECTIONAL_SEQUENCE_LSTM of int8 in files as converters write them."""

from dataclasses import dataclass

import numpy as np

from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

_ABSENT = -1
#: Places of the operator's 24 inputs.
_WEIGHTS, _BIASES, _STATE = range(1, 9), range(12, 16), (18, 19)


@dataclass(frozen=True, kw_only=True)
class LstmFile:
    """One LSTM, whose input is (batch, steps, depth), or (steps, batch, depth) if `time_major`."""

    batch: int = 1
    steps: int = 3
    depth: int = 5
    cells: int = 7
    time_major: bool = False
    clip: float = 10.0
    power: float = -12
    activation: int = 4
    hidden_zero: int = -4
    hidden_scale: float = 0.0061
    recurrent: float = 1.0

    @property
    def lengths(self) -> tuple[int, int]:
        """The first two axes of input and output."""
        return (self.steps, self.batch) if self.time_major else (self.batch, self.steps)

    def content(self, seed: int) -> bytes:
        """Return the bytes of the file, with random weights, biases and scales."""
        random = np.random.default_rng(seed)
        hidden = (self.hidden_scale,), (self.hidden_zero,)
        zero = int(random.integers(-128, 128))
        tensors = [
            FileTensor(
                name="x",
                shape=(*self.lengths, self.depth),
                scales=(float(random.uniform(0.003, 0.05)),),
                zeros=(zero,),
            )
        ]
        places = [_ABSENT] * 24
        places[0] = 0

        def place(at: int, tensor: FileTensor) -> None:
            """Append a tensor, and make it input `at` of the operator."""
            places[at] = len(tensors)
            tensors.append(tensor)

        for at in _WEIGHTS:
            shape = (self.cells, self.depth if at < 5 else self.cells)
            data = random.integers(-127, 128, shape).astype(np.int8)
            scale = float(random.uniform(0.002, 0.02)) * (1 if at < 5 else self.recurrent)
            place(
                at, FileTensor(shape=shape, data=data, scales=(scale,), zeros=(0,), name=f"w{at}")
            )
        for at in _BIASES:
            data = random.integers(-20000, 20000, self.cells).astype(np.int32)
            place(at, FileTensor(shape=data.shape, dtype="int32", data=data, name=f"b{at}"))
        state = (self.batch, self.cells)
        cell = (2.0**self.power,), (0,)
        for at, dtype, (scales, zeros) in zip(
            _STATE, ("int8", "int16"), (hidden, cell), strict=True
        ):
            kind = FileTensor(shape=state, dtype=dtype, scales=scales, zeros=zeros, variable=True)
            place(at, kind)
        made = FileTensor(
            name="y", shape=(*self.lengths, self.cells), scales=hidden[0], zeros=hidden[1]
        )
        tensors.append(made)
        fields = {
            "fusedActivationFunction": self.activation,
            "cellClip": self.clip,
            "timeMajor": self.time_major,
        }
        operator = FileOperator(
            name="UNIDIRECTIONAL_SEQUENCE_LSTM",
            inputs=tuple(places),
            outputs=(len(tensors) - 1,),
            options=("UnidirectionalSequenceLSTMOptions", fields),
        )
        network = FileNetwork(
            tensors=tuple(tensors),
            operators=(operator,),
            inputs=(0,),
            outputs=(len(tensors) - 1,),
        )
        return write_file(network)
