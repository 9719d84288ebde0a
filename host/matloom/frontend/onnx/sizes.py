"""Sets the sizes of an ONNX model's inputs, whose dimensions may have names instead."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matloom.errors import did_you_mean
from matloom.frontend.errors import ModelError, ShapeError
from matloom.frontend.onnx.model import DTYPES

Shape = tuple[int, ...]


def inputs_of(graph: Any) -> list[Any]:
    """Return the ValueInfoProtos of a GraphProto's inputs, except constants."""
    constants = {each.name for each in graph.initializer}
    constants.update(each.values.name for each in graph.sparse_initializer)
    return [value for value in graph.input if value.name not in constants]


def set_sizes(graph: Any, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> None:
    """Set the size of each dimension of a GraphProto's inputs, in place.

    `shapes` are input shapes by name, `dims` sizes by dimension name. Other values with dimensions
    of these names get the same sizes.

    Raises
    ------
    ModelError
        A name is unknown, a shape does not fit, a dimension has no size or two different sizes, or
        an input is not a tensor of a NumPy type.
    """
    inputs = inputs_of(graph)
    _require_known("input", shapes, [value.name for value in inputs])
    sizes = dict(dims)
    for value in inputs:
        _require_array(value)
        if value.name in shapes:
            sizes.update(_bind_sizes(value, tuple(shapes[value.name]), sizes))
    known = [dim.dim_param for value in inputs for dim in _dims(value) if dim.dim_param]
    _require_known("dimension", dims, list(dict.fromkeys(known)))
    for value in inputs:
        if not value.type.tensor_type.HasField("shape"):
            raise _open_size_error(value, "no shape", ("N", "N"))
        for dim in _dims(value):
            _set_size(value, dim, sizes)
    for value in (*graph.output, *graph.value_info):
        for dim in _dims(value):
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]


def _require_known(subject: str, requested: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise `ModelError` if a name in a request is not one that the model has."""
    for name in requested:
        if name not in known:
            if not known:
                raise ModelError(
                    f"has no {subject} {name!r}: its inputs have no {subject}s with a name",
                    hint=f"leave {name} out; --shape sets sizes that have no name",
                )
            raise ModelError(
                f"has no {subject} {name!r}, but {', '.join(map(repr, known))}",
                hint=did_you_mean(name, known) or f"name one of these, or leave {name} out",
            )


def _require_array(value: Any) -> None:
    """Raise `ModelError` unless an input is a tensor of a type that NumPy has."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        kind_name = (kind or "nothing").removesuffix("_type").replace("_", " ")
        raise ModelError(f"has the input {value.name!r}, which must be a tensor, not {kind_name}")
    number = value.type.tensor_type.elem_type
    if number not in DTYPES:
        raise ModelError(
            f"has the input {value.name!r} of type {_type_name(number)}, which NumPy does not have"
        )


def _type_name(number: int) -> str:
    """Return the name of an ONNX element type, such as "bfloat16", or its number."""
    import onnx

    for name, value in onnx.TensorProto.DataType.items():
        if value == number:
            return str(name).lower()
    return str(number)


def _dims(value: Any) -> Iterator[Any]:
    """Yield the dimensions of an ONNX tensor's shape."""
    yield from value.type.tensor_type.shape.dim


def _has_size(dim: Any) -> bool:
    """Return whether a dimension has a size; exporters write -1 for an open dimension."""
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


def _bind_sizes(value: Any, shape: Shape, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that `shape` gives to the named dimensions of an input.

    Sets the sizes of unnamed dimensions in place. `sizes` are those of named dimensions so far.

    Raises
    ------
    ShapeError
        The shape contradicts a size that is known.
    """
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        tensor.shape.SetInParent()
        for _length in shape:
            tensor.shape.dim.add()
    wanted = [dim.dim_value if _has_size(dim) else dim.dim_param or "?" for dim in _dims(value)]
    found: dict[str, int] = {}
    fits = len(wanted) == len(shape) and min(shape, default=1) > 0
    for have, size in zip(wanted, shape, strict=False):
        fits = fits and (isinstance(have, str) or have == size)
        if isinstance(have, str) and have != "?":
            fits = fits and {**sizes, **found}.get(have, size) == size
            found[have] = size
    if not fits:
        listed = ", ".join(map(str, wanted))
        raise ShapeError(f"must have an input {value.name!r} of shape ({listed}), not {shape}")
    for dim, size in zip(_dims(value), shape, strict=True):
        if not dim.dim_param:
            dim.dim_value = size
    return found


def _set_size(value: Any, dim: Any, sizes: Mapping[str, int]) -> None:
    """Set a dimension without a size to the requested one of its name."""
    if _has_size(dim):
        return
    name = dim.dim_param
    if not name:
        shape = [str(each.dim_value) if _has_size(each) else "N" for each in _dims(value)]
        raise _open_size_error(value, "a dimension without name or size", shape)
    if name not in sizes:
        raise ModelError(
            f"has the input {value.name!r} with the dimension {name!r}, whose size is not known",
            hint=f"give it: --dim {name}=1, or dims={{{name!r}: 1}}",
        )
    if sizes[name] < 1:
        raise ModelError(f"must have a size of 1 or more for {name!r}, not {sizes[name]}")
    dim.dim_value = sizes[name]


def _open_size_error(value: Any, subject: str, shape: Sequence[str]) -> ModelError:
    """Return the error about a dimension without a size; `shape` is an example for the hint."""
    return ModelError(
        f"has the input {value.name!r} with {subject}",
        hint=f"give its shape: --shape {value.name}={','.join(shape)}, numbers instead of N",
    )
