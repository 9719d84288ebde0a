"""Models of loop bodies, and the shapes of the values that loops carry."""

from typing import Any

from matloom.frontend.onnx.optimised import is_integer_operator
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.kernels.onnx_model import subgraphs, values_read


def is_layered_loop(node: Any) -> bool:
    """Return whether a NodeProto is a Loop whose body has operators on quantised integers."""
    if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
        return False
    return any(is_integer_operator(each.op_type) for body in subgraphs(node) for each in body.node)


def with_loop_shapes(model: Any) -> Any:
    """Return a model that declares the shapes of values carried by loops with quantised layers.

    Shape inference leaves these shapes open, since an iteration may change a shape. Loops for which
    `body_of` returns None stay as they are.
    """
    import onnx

    for at, node in enumerate(model.graph.node):
        if is_layered_loop(node) and body_of(model, node) is not None:
            declared = {value.name for value in model.graph.output}
            known, changed = _declared_values(model.graph), onnx.ModelProto()
            changed.CopyFrom(model)
            for given, made in zip(node.input[2:], node.output, strict=False):
                if made and made not in declared:
                    value = changed.graph.value_info.add(name=made)
                    value.type.CopyFrom(known[given].type)
            model = infer_shapes(changed)
            assert model.graph.node[at].output == node.output
    return model


def outer_values(model: Any, node: Any) -> list[str]:
    """Return the names of computed values that a loop's body reads from outside."""
    constants = {each.name for each in model.graph.initializer}
    return [name for name in values_read(node) if name not in {*node.input, *constants}]


def body_of(model: Any, node: Any) -> Any:
    """Return the model of one iteration of a loop; None if it cannot be a separate model.

    Its inputs are the index of the iteration, whether to continue, the values that the loop
    carries, and the values that it reads from outside. The result is None if the shape of one of
    these is unknown, or the type or shape of a carried value changes in an iteration.
    """
    import onnx

    known, outer, carried = _declared_values(model.graph), outer_values(model, node), node.input[2:]
    if not {*carried, *outer} <= {*known}:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    (body,) = subgraphs(node)
    graph.CopyFrom(body)
    held, used = {each.name for each in body.initializer}, {*values_read(node)}
    graph.initializer.extend(
        each for each in model.graph.initializer if each.name in used and each.name not in held
    )
    kinds = [onnx.helper.make_tensor_type_proto(kind, []) for kind in _COUNTERS]
    kinds += [known[name].type for name in carried]
    for value, kind in zip(graph.input, kinds, strict=True):
        value.type.CopyFrom(kind)
    graph.input.extend(known[name] for name in outer)
    _add_missing_producers(graph)
    made = infer_shapes(made)
    ends = [value.type for value in made.graph.output][1 : 1 + len(carried)]
    return made if ends == kinds[len(_COUNTERS) :] else None


#: ONNX types of a body's first two inputs, the index of the iteration and the condition: int64 and
#: bool.
_COUNTERS = (7, 9)


def _add_missing_producers(graph: Any) -> None:
    """Give each output of a loop's body a node that computes it, and clear all output shapes.

    An output that is an input, or repeats an earlier output, is copied by a new Identity node.
    """
    made = [name for each in graph.node for name in each.output]
    for at, value in enumerate(graph.output):
        if value.name in made:
            made.remove(value.name)
        else:
            source, value.name = value.name, f"{value.name} ({at})"
            graph.node.add(op_type="Identity", input=[source], output=[value.name])
        value.type.tensor_type.ClearField("shape")


def _declared_values(graph: Any) -> dict[str, Any]:
    """Return the declarations of a graph's constants, and of values with known shapes, by name."""
    import onnx

    found = {
        value.name: value
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
        and all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
    }
    for each in graph.initializer:
        found[each.name] = onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
    return found
