"""Writes out branches and loops whose operators the engine may run: If, Loop and Scan.

The operators of a branch or a body are then compiled like all others. Both branches of an If run,
and Where chooses between their results. The iterations of a loop of known length run one after the
other; Where discards the values of iterations that its condition does not allow. Scan has an
iteration for each slice of its inputs. All operators must therefore be unable to fail, whatever
their inputs; otherwise ONNX Runtime runs the whole branch or loop.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matloom.frontend.onnx.bytewise import ELEMENTWISE
from matloom.frontend.onnx.moves import MOVES
from matloom.frontend.onnx.optimised import is_integer_operator
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.kernels.onnx_model import subgraphs

#: Maximum number of operators in all iterations of a loop together; longer loops stay loops.
_MAX_OPERATORS = 512
_CANNOT_FAIL = frozenset(
    {
        # Integer division by zero would end the process.
        *(ELEMENTWISE - {"Div"}),
        *("AveragePool", "Cast", "Concat", "Constant", "Conv", "DequantizeLinear", "Flatten"),
        *("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"),
        *("Gemm", "GlobalAveragePool", "MatMul", "QuantizeLinear", "ReduceMax", "ReduceMean"),
        *("ReduceMin", "ReduceSum", "Softmax"),
        *MOVES,
    }
)
#: Types, as in `onnx.TensorProto.DataType`, for which ONNX Runtime supports Where.
_WHERE_TYPES = frozenset({1, 2, 3, 6, 7, 11})
#: Name of the Where nodes that this module adds.
_CHOICE_NAME = "choice"


class _RefusedError(Exception):
    """Error for a branch or loop that cannot be written out and stays unchanged."""


def unroll_control_flow(model: Any) -> Any:
    """Return a model in which branches and loops of quantised operators are written out.

    Only branches and loops of the main graph that contain no other control flow are written out.
    """
    import onnx

    for at, node in enumerate(model.graph.node):
        if node.op_type not in ("If", "Loop", "Scan") or node.domain not in ("", "ai.onnx"):
            continue
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        try:
            nodes = _Writer(changed, at).nodes()
            del changed.graph.node[:]
            changed.graph.node.extend([*model.graph.node[:at], *nodes, *model.graph.node[at + 1 :]])
            changed = infer_shapes(changed)
            _require_choices(changed.graph)
        except _RefusedError:
            continue
        return unroll_control_flow(changed)
    return model


class _Writer:
    """Writes out one control operator of a model; constants of bodies go to the model's graph."""

    def __init__(self, model: Any, index: int) -> None:
        self.graph, self.node = model.graph, model.graph.node[index]
        self.label = f"iteration {index}"
        versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
        # Unsqueeze takes its axes as an input from version 13 on; Scan has no batches from 9 on.
        self.modern, self._scans = max(versions) >= 13, max(versions) >= 9
        self.replacement: list[Any] = []
        bodies = list(subgraphs(self.node))
        if not any(is_integer_operator(each.op_type) for body in bodies for each in body.node):
            raise _RefusedError
        for body in bodies:
            for each in body.node:
                if each.op_type not in _CANNOT_FAIL and not is_integer_operator(each.op_type):
                    raise _RefusedError
            if body.sparse_initializer:
                raise _RefusedError

    def nodes(self) -> list[Any]:
        """Return the operators that replace the If, Loop or Scan, or raise `_RefusedError`."""
        kinds = {"If": self._write_branches, "Loop": self._unroll_loop, "Scan": self._unroll_scan}
        kinds[self.node.op_type]()
        return self.replacement

    def _write_branches(self) -> None:
        """Add the operators of both branches of an If, and a Where for each output."""
        branches = {item.name: item.g for item in self.node.attribute}
        chosen = [
            self._inline(
                branches[name], {}, f"{self.label} {name}", self._copy_constants(branches[name])
            )
            for name in ("then_branch", "else_branch")
        ]
        for output, one, other in zip(self.node.output, *chosen, strict=True):
            if output:
                self._add("Where", [self.node.input[0], one, other], output, name=_CHOICE_NAME)

    def _unroll_loop(self) -> None:
        """Add the operators of each iteration of a Loop, and those of its outputs."""
        (body,) = subgraphs(self.node)
        most, begins = (self._constant_value(name) for name in [*self.node.input, ""][:2])
        carried = list(self.node.input[2:])
        if most is None or most < 1 or most * len(body.node) > _MAX_OPERATORS:
            raise _RefusedError
        if self.node.input[1] and not begins:
            raise _RefusedError
        always, alive = _condition_is_constant(body), ""
        stacked: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
        if not always and stacked:
            raise _RefusedError
        constants = self._copy_constants(body)
        for iteration in range(int(most)):
            label = f"{self.label}.{iteration}"
            number = self._add_constant(np.array(iteration), f"{label} number")
            condition = self._add_constant(np.array(True), f"{label} condition")
            names = [value.name for value in body.input]
            given = dict(zip(names, [number, condition, *carried], strict=True))
            ends = self._inline(body, given, label, constants)
            after = ends[1 : 1 + len(carried)]
            if alive:
                after = [
                    self._add(
                        "Where", [alive, new, old], f"{label} kept {place}", name=_CHOICE_NAME
                    )
                    for place, (new, old) in enumerate(zip(after, carried, strict=True))
                ]
            carried = after
            for each, name in zip(stacked, ends[1 + len(carried) :], strict=True):
                each.append(self._add_unsqueeze(name, f"{label} {len(each)} of {name}"))
            if not always:
                alive = self._add("And", [alive, ends[0]], f"{label} on") if alive else ends[0]
        self._add_outputs(carried, [(parts, 0) for parts in stacked])

    def _unroll_scan(self) -> None:
        """Add the operators of each iteration of a Scan, and those of its outputs."""
        (body,) = subgraphs(self.node)
        given = {item.name: item for item in self.node.attribute}
        if "num_scan_inputs" not in given or not self._scans:
            raise _RefusedError
        count = given["num_scan_inputs"].i
        carried, scanned = list(self.node.input[:-count]), list(self.node.input[-count:])
        made = len(body.output) - len(carried)

        def numbers(name: str, length: int) -> list[int]:
            """Return an attribute's integers, by default zeros."""
            return list(given[name].ints) if name in given else [0] * length

        axes, iterations = self._sliced_axes(scanned, numbers("scan_input_axes", count))
        if not 0 < iterations * len(body.node) <= _MAX_OPERATORS:
            raise _RefusedError
        stacked: list[list[str]] = [[] for _ in range(made)]
        ends = numbers("scan_output_axes", made)
        constants, names = self._copy_constants(body), [value.name for value in body.input]
        for iteration in range(iterations):
            label = f"{self.label}.{iteration}"
            parts = []
            for place, reverse in enumerate(numbers("scan_input_directions", count)):
                at = self._add_constant(
                    np.array(iterations - 1 - iteration if reverse else iteration),
                    f"{label} {place}",
                )
                source = [scanned[place], at]
                parts.append(self._add("Gather", source, f"{at} slice", axis=axes[place]))
            inside = dict(zip(names, [*carried, *parts], strict=True))
            values = self._inline(body, inside, label, constants)
            carried = values[: len(carried)]
            for place, name in enumerate(values[len(carried) :]):
                new = f"{label} {iteration} of {name} {place}"
                stacked[place].append(self._add_unsqueeze(name, new, ends[place]))
        backward = numbers("scan_output_directions", made)
        ordered = [
            each[::-1] if back else each for each, back in zip(stacked, backward, strict=True)
        ]
        self._add_outputs(carried, list(zip(ordered, ends, strict=True)))

    def _sliced_axes(self, names: Sequence[str], axes: Sequence[int]) -> tuple[list[int], int]:
        """Return the axes along which Scan slices its inputs, none negative, and their length."""
        known = {each.name: each.type for each in (*self.graph.input, *self.graph.value_info)}
        found, sizes = [], set()
        for name, axis in zip(names, axes, strict=True):
            if name not in known:
                raise _RefusedError
            dims = known[name].tensor_type.shape.dim
            if not -len(dims) <= axis < len(dims):
                raise _RefusedError
            found.append(axis % len(dims))
            sizes.add(dims[axis].dim_value)
        if len(sizes) != 1:
            raise _RefusedError
        return found, sizes.pop()

    def _add_outputs(
        self, carried: Sequence[str], stacked: Sequence[tuple[Sequence[str], int]]
    ) -> None:
        """Add operators that make the outputs of the loop.

        `carried` are the values of the last iteration. Each item of `stacked` is the values of all
        iterations, and the axis along which they are concatenated.
        """
        for name, output in zip(carried, self.node.output, strict=False):
            if output:
                self._add("Identity", [name], output)
        for (parts, axis), output in zip(stacked, self.node.output[len(carried) :], strict=True):
            if output:
                self._add("Concat", parts, output, axis=axis)

    def _inline(
        self, body: Any, names_inside: Mapping[str, str], label: str, constants: Mapping[str, str]
    ) -> list[str]:
        """Add the operators of a branch or an iteration; return the names of its outputs.

        `names_inside` and `constants` map names in the body to names in the main graph.
        """
        import onnx

        names = {**constants, **names_inside}
        for node in body.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = [names.get(name, name) for name in node.input]
            names.update({name: f"{name} ({label})" for name in node.output if name})
            copy.output[:] = [names.get(name, name) for name in node.output]
            self.replacement.append(copy)
        return [names.get(value.name, value.name) for value in body.output]

    def _copy_constants(self, body: Any) -> dict[str, str]:
        """Copy the constants of a body to the main graph; map their names to the new ones."""
        names = {}
        for each in body.initializer:
            names[each.name] = f"{each.name} ({self.label} {body.name})"
            self.graph.initializer.add().CopyFrom(each)
            self.graph.initializer[-1].name = names[each.name]
        return names

    def _constant_value(self, name: str) -> Any:
        """Return the number in a constant of the main graph; None if it is computed."""
        from onnx import numpy_helper

        found = [each for each in self.graph.initializer if each.name == name]
        return numpy_helper.to_array(found[0]).item() if found else None

    def _add_constant(self, data: Any, name: str) -> str:
        """Add a constant to the main graph; return its name."""
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(data, name))
        return name

    def _add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append an operator with one output; return the output's name."""
        import onnx

        self.replacement.append(onnx.helper.make_node(op, inputs, [output], **attributes))
        return output

    def _add_unsqueeze(self, name: str, output: str, axis: int = 0) -> str:
        """Append an operator that adds an axis of size 1; return its output's name."""
        if not self.modern:
            return self._add("Unsqueeze", [name], output, axes=[axis])
        axes = self._add_constant(np.full(1, axis, np.int64), f"{output} axes")
        return self._add("Unsqueeze", [name, axes], output)


def _condition_is_constant(body: Any) -> bool:
    """Return whether a loop never stops early, because its body keeps the condition unchanged."""
    producers = {name: node for node in body.node for name in node.output}
    name = body.output[0].name
    while name in producers and producers[name].op_type in ("Identity", "Cast"):
        name = producers[name].input[0]
    return bool(name == body.input[1].name)


def _require_choices(graph: Any) -> None:
    """Raise `_RefusedError` if ONNX Runtime may be unable to run a Where that this module added.

    Both values and the result must have the same known type and shape, and a type that Where
    supports.
    """
    known = {each.name: each.type for each in (*graph.input, *graph.value_info, *graph.output)}
    for each in graph.initializer:
        known.setdefault(each.name, None)
    for node in (each for each in graph.node if each.name == _CHOICE_NAME):
        types = [known.get(name) for name in (*node.input[1:], *node.output)]
        first = types[0]
        if first is None or any(each != first for each in types):
            raise _RefusedError
        if first.tensor_type.elem_type not in _WHERE_TYPES:
            raise _RefusedError
