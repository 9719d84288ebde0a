"""Chooses the number format of each layer that a user's precision applies to."""

from collections.abc import Mapping

from matloom.arch.modes import MODES as _MODES
from matloom.errors import UserError, UserTypeError, did_you_mean, unknown_name_error
from matloom.ir.attributes import Conv2D, FullyConnected
from matloom.ir.graph import Graph, Node, Op, short_name
from matloom.ir.scales import has_explicit_multipliers

#: A mode for all layers that can have it, or modes by the names of layers.
Precision = str | Mapping[str, str]

#: Modes for layers of float32, and for those of int8.
FLOAT32_MODES = tuple(item.name for item in _MODES.values() if item.lowered_from == "float32")
INT8_MODES = tuple(item.name for item in _MODES.values() if item.lowered_from == "int8")

#: All modes that a precision can give to layers.
MODES = (*FLOAT32_MODES, *INT8_MODES)

#: Precisions that leave a layer unchanged, each with the modes of the layers that may have it.
_UNCHANGING_MODES = {"float32": FLOAT32_MODES, "i8xi8": INT8_MODES}

#: Hint for an unknown mode.
_MODE_HINT = "write MODE for all layers that can have it, or LAYER=MODE for one"

#: Key of a table for all layers that it does not name.
_ALL_OTHERS = "*"

_OPERATORS = (Op.CONV_2D, Op.FULLY_CONNECTED)


def is_float(graph: Graph, node: Node) -> bool:
    """Return whether a layer is float32; its weights may be quantised integers."""
    if node.op not in _OPERATORS:
        return False
    data, weights, *bias = (graph.tensors[number] for number in node.inputs)
    types = {data.dtype, *(tensor.dtype for tensor in bias)}
    constant = all(tensor.data is not None for tensor in (weights, *bias))
    return types == {"float32"} and weights.dtype in ("float32", "int8") and constant


def is_integer(graph: Graph, node: Node) -> bool:
    """Return whether a layer is int8 with constant weights, and may get another number format."""
    if node.op not in _OPERATORS or has_explicit_multipliers(node):
        return False
    assert isinstance(node.attributes, Conv2D | FullyConnected)
    data, weights, *bias = (graph.tensors[number] for number in node.inputs)
    types = {data.dtype, weights.dtype, graph.tensors[node.output].dtype}
    constant = all(tensor.data is not None for tensor in (weights, *bias))
    return types == {"int8"} and constant and node.attributes.mode is None


def _possible(graph: Graph) -> dict[int, tuple[str, ...]]:
    """Return the modes (number formats) that each layer may get, by its output's tensor number."""
    kinds = ((is_float, FLOAT32_MODES), (is_integer, INT8_MODES))
    return {
        node.output: modes for node in graph.nodes for fits, modes in kinds if fits(graph, node)
    }


def _layers_named(graph: Graph, layers: Mapping[int, tuple[str, ...]], name: str) -> list[int]:
    """Return the output tensor numbers of layers with a name, in full or up to the first semicolon.

    Raises
    ------
    UserError
        No layer in `layers` has this name.
    """
    names = {at: graph.tensors[at].name for at in layers}
    for found in (
        [at for at, full in names.items() if full == name],
        [at for at, full in names.items() if short_name(full) == name],
    ):
        if found:
            return found
    short_names = [short_name(full) for full in names.values()]
    raise UserError(
        f"precision must name convolutions and dense layers of float32 or int8, not {name!r}",
        hint=did_you_mean(name, short_names) or "matloom explain NET lists the layers",
    )


def choose_modes(graph: Graph, precision: Precision) -> dict[int, str]:
    """Return the new mode of each layer to change, by the tensor number of its output.

    Parameters
    ----------
    precision:
        A mode for all layers that can have it: ``bf16`` or ``fp16`` for convolutions and dense
        layers of float32, ``i8xi4`` for those of int8. Or a table by the name of a layer's output
        (or what stands before its first semicolon), in which ``*`` stands for all others, and
        ``float32`` and ``i8xi8`` leave a layer as it is.

    Raises
    ------
    ValueError
        A mode or layer is unknown, a layer cannot have its mode, or no layer can.
    TypeError
        Neither a mode nor a table.
    """
    if not isinstance(precision, str | Mapping):
        raise UserTypeError(
            f"precision must be a mode or a table by layer, not {precision!r}",
            hint="pass precision='bf16', or a dictionary from names of layers to modes",
        )
    table = {_ALL_OTHERS: precision} if isinstance(precision, str) else dict(precision)
    known = (*MODES, *_UNCHANGING_MODES)
    for mode in table.values():
        if mode not in known:
            raise unknown_name_error(UserError, "a precision", mode, known, hint=_MODE_HINT)
    layers = _possible(graph)
    others = table.pop(_ALL_OTHERS, None)
    modes: dict[int, str] = {}
    if others is not None:
        modes = {at: others for at, fits in layers.items() if others in _equivalent_modes(fits)}
        if not modes:
            kind = "int8" if others in _equivalent_modes(INT8_MODES) else "float32"
            raise UserError(
                f"precision {others} must be of a network that has convolutions or dense layers "
                f"of {kind}, not of {graph.name!r}",
                hint="matloom explain NET lists the layers; leave the precision out",
            )
    for name, mode in table.items():
        for at in _layers_named(graph, layers, name):
            allowed = _equivalent_modes(layers[at])
            if mode not in allowed:
                raise UserError(
                    f"the precision of {name!r} must be one of {', '.join(allowed)}, not {mode}",
                    hint=f"take {allowed[0]} for this layer, or leave it out",
                )
            modes[at] = mode
    return {at: mode for at, mode in modes.items() if mode not in _UNCHANGING_MODES}


def _equivalent_modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a user may give for a layer's number format.

    These are `modes`, and names of precisions that leave such a layer unchanged.
    """
    return (
        *modes,
        *(unchanged for unchanged, others in _UNCHANGING_MODES.items() if others == modes),
    )
