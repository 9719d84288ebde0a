"""Tensors and signatures declared by a TensorFlow Lite file."""

from typing import Any

import numpy as np
import tflite

from matloom.frontend.declaration import Declaration, DeclaredTensor, Signature
from matloom.frontend.errors import ModelError, Unsupported, unreadable_file
from matloom.frontend.source import ModelFile
from matloom.frontend.tflite.flatbuffer import numbers, records, text
from matloom.frontend.tflite.tensors import DTYPES, FileTensors
from matloom.ir.graph import Array
from matloom.ir.names import input_and_output_names


def read_tflite_declaration(file: ModelFile) -> Declaration:
    """Return the declarations of a TensorFlow Lite file's first subgraph.

    Raises
    ------
    ModelError
        The file is truncated or malformed.
    """
    try:
        return _read_subgraph(file.content)
    # Damage surfaces as any exception: struct.error, IndexError, TypeError.
    except Exception as error:
        raise unreadable_file(f"{file.name}:", error) from None


def _read_subgraph(content: bytes) -> Declaration:
    """Return the inputs, outputs, tensors and signatures that a file declares."""
    model = tflite.Model.GetRootAs(content)
    if not model.SubgraphsLength():
        raise ModelError("a model must have a subgraph")
    subgraph = model.Subgraphs(0)
    values = FileTensors(content, model, subgraph)
    names = {
        at: text(table.Name()) or f"tensor_{at}"
        for at, table in enumerate(records(subgraph, "Tensors"))
    }
    inputs, outputs = (numbers(subgraph, side).tolist() for side in ("Inputs", "Outputs"))
    keys = input_and_output_names(names, (inputs, outputs))
    tensors = tuple(
        _declared_tensor(values, number, name, keys.get(number, name))
        for number, name in names.items()
    )
    return Declaration(
        inputs=tuple(tensors[number] for number in inputs),
        outputs=tuple(tensors[number] for number in outputs),
        tensors=tensors,
        signatures=_signatures(model, set(inputs), set(outputs)),
    )


def _declared_tensor(values: FileTensors, number: int, name: str, key: str) -> DeclaredTensor:
    """Return what a file declares of one tensor; `key` names it if it is an input or output."""
    table = values.subgraph.Tensors(number)
    sizes = tuple(numbers(table, "Shape").tolist())
    signature = tuple(numbers(table, "ShapeSignature").tolist()) or sizes
    parameters = table.Quantization()
    scales = () if parameters is None else numbers(parameters, "Scale").tolist()
    zeros = () if parameters is None else numbers(parameters, "ZeroPoint").tolist()
    # As in LiteRT, a single zero point applies to all scales.
    zeros = list(zeros) * len(scales) if len(zeros) == 1 else zeros
    return DeclaredTensor(
        name=name,
        key=key,
        number=number,
        shape=tuple(size if size >= 0 else None for size in signature),
        placeholder=sizes,
        dtype=DTYPES.get(table.Type(), "object"),
        scales=tuple(scales),
        zero_points=tuple(zeros[: len(scales)]),
        axis=parameters.QuantizedDimension() if scales else 0,
        data=_data(values, number),
    )


def _data(values: FileTensors, number: int) -> Array | None:
    """Return the value of a constant; None for other tensors.

    Constants of 4-bit integers, and of types that NumPy lacks, also give None.
    """
    if number in values.produced or values.is_4_bit(number):
        return None
    try:
        data = values.opaque_tensor(number).data
    except Unsupported:
        return None
    return None if data is None else np.array(data)


def _signatures(model: Any, inputs: set[int], outputs: set[int]) -> tuple[Signature, ...]:
    """Return the signatures of the first subgraph, by which a network can be called.

    A signature is left out if one of its tensors is not in `inputs` or `outputs`.
    """
    found = []
    for item in records(model, "SignatureDefs"):
        sides = [
            {text(entry.Name()): int(entry.TensorIndex()) for entry in records(item, side)}
            for side in ("Inputs", "Outputs")
        ]
        first = item.SubgraphIndex() == 0
        if first and {*sides[0].values()} <= inputs and {*sides[1].values()} <= outputs:
            name = text(item.SignatureKey())
            found.append(Signature(name=name, inputs=sides[0], outputs=sides[1]))
    return tuple(found)
