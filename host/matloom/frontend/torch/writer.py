"""An ONNX model under construction, for the converters of exported programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matloom.frontend.errors import ModelError
from matloom.ir.graph import Array

#: Versions of the operator set, which has all operators used here, such as Gelu and HardSwish, and
#: of the file format.
_OPSET, _IR_VERSION = 20, 9


@dataclass(frozen=True, kw_only=True, eq=False)
class Value:
    """A tensor of the model.

    `name` is its name in the ONNX model, `dtype` NumPy's name of its type; `data` is None unless it
    is constant.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: Array | None = field(default=None, repr=False)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def axis(self, number: int) -> int:
        """Return the axis `number`, which may be negative, as an index from 0."""
        return number % max(self.rank, 1)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of an operator in an exported program.

    Members
    -------
    operator:
        Name of the operator, such as ``aten.conv2d``.
    arguments:
        Arguments by name, defaults included.
    outputs:
        Shape and type of each output; None for an output that is not a tensor.
    """

    operator: str
    arguments: Mapping[str, Any]
    outputs: tuple[tuple[tuple[int, ...], str] | None, ...]

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the argument `name`; `default` if the operator lacks it or it is None."""
        found = self.arguments.get(name)
        return default if found is None else found

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first output."""
        assert self.outputs[0] is not None
        return self.outputs[0][0]

    @property
    def dtype(self) -> str:
        """Type of the first output."""
        assert self.outputs[0] is not None
        return self.outputs[0][1]

    def refuse(self, reason: str) -> ModelError:
        """Return the error for a call that cannot be converted.

        `reason` names the argument at fault.
        """
        return ModelError(f"has {self.operator} with {reason}, which has no counterpart in ONNX")


class Writer:
    """The nodes and constants of a model under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.domains: set[str] = set()
        #: Constant scales of dequantised values, by the values' names: one for the tensor, or one
        #: for each channel.
        self.scales: dict[str, Array] = {}

    def constant(self, data: Any, dtype: str | None = None, name: str = "") -> str:
        """Add a constant; return its name. The default of `dtype` is the type of the data."""
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(data, dtype)
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        """Add a constant vector of int64, such as axes or sizes; return its name."""
        return self.constant(list(numbers), "int64")

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output; return the output's name."""
        return self.add_multiple(op, inputs, 1, domain=domain, **attributes)[0]

    def add_multiple(
        self, op: str, inputs: Sequence[str], count: int, *, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add an operator with `count` outputs; return their names.

        Attributes that are None are left out.
        """
        from onnx import helper

        outputs = [f"value_{len(self.nodes)}_{at}" for at in range(count)]
        present = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, list(inputs), outputs, domain=domain, **present))
        self.domains.add(domain)
        return outputs

    def cast(self, value: Value, dtype: str) -> str:
        """Return the name of a value as `dtype`, adding a Cast if it has another type."""
        if value.dtype == dtype:
            return value.name
        if value.data is not None and value.data.size == 1:
            return self.constant(value.data, dtype)
        return self.add("Cast", value.name, to=_onnx_type(dtype))

    def operand(self, argument: Any, dtype: str) -> str:
        """Return the name of a value or number as `dtype`; a number becomes a constant."""
        if isinstance(argument, Value):
            return self.cast(argument, dtype)
        return self.constant(argument, dtype)

    def model(self, inputs: Sequence[Value], outputs: Sequence[tuple[str, Value]]) -> bytes:
        """Return the content of the finished ONNX file.

        `outputs` are the names of the model's outputs, and their values. Constants that no operator
        reads are left out.
        """
        import onnx
        from onnx import helper

        for name, value in outputs:
            self.nodes.append(helper.make_node("Identity", [value.name], [name]))
        input_infos = [_value_declaration(value.name, value) for value in inputs]
        output_infos = [_value_declaration(name, value) for name, value in outputs]
        used = {name for node in self.nodes for name in node.input}
        initializers = [
            onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            for name, array in self.constants.items()
            if name in used
        ]
        graph = helper.make_graph(self.nodes, "exported", input_infos, output_infos, initializers)
        imports = [helper.make_opsetid("", _OPSET)]
        imports += [helper.make_opsetid(domain, 1) for domain in sorted(self.domains - {""})]
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=_IR_VERSION, producer_name="torch.export"
        )
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def _value_declaration(name: str, value: Value) -> Any:
    """Return the ONNX declaration of an input or output."""
    from onnx import helper

    return helper.make_tensor_value_info(name, _onnx_type(value.dtype), value.shape)


def _onnx_type(dtype: str) -> int:
    """Return the number of a NumPy type in ONNX (`TensorProto.DataType`)."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
