"""Converts ONNX operators to operators of the graph, or leaves them opaque."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.averages import convert_average, convert_mean
from matloom.frontend.onnx.bodies import is_layered_loop
from matloom.frontend.onnx.bytewise import convert_function, convert_move
from matloom.frontend.onnx.channelwise import convert_channels
from matloom.frontend.onnx.choices import convert_choice, convert_integer_choice
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.host_parts import run_channels_last, split_channels
from matloom.frontend.onnx.host_transposes import transpose_on_host
from matloom.frontend.onnx.integer_products import convert_integer_product
from matloom.frontend.onnx.joins import convert_join
from matloom.frontend.onnx.moves import MOVES
from matloom.frontend.onnx.pair_products import convert_pair_product
from matloom.frontend.onnx.products import convert_product
from matloom.frontend.onnx.quantised import Model, layer_of, quantisation_of
from matloom.frontend.onnx.reasons import usual_reason
from matloom.frontend.onnx.registered import add_registered, registered_node
from matloom.frontend.onnx.sums import convert_sum
from matloom.frontend.onnx.transposed import convert_transposed
from matloom.frontend.onnx.unary import convert_unary
from matloom.frontend.onnx.values import FileValue, Values
from matloom.frontend.onnx.weighted import convert_layer
from matloom.frontend.opaque import OpaqueOperator
from matloom.ir.attributes import ONNX_INTERPRETERS
from matloom.ir.graph import Node, Op, Quantisation
from matloom.kernels.onnx_model import values_read

#: Index of the input that holds the second operand of quantised layers, and their minimum number of
#: inputs.
_SECOND, _FEWEST = 3, 8


def _convert_layer(values: Values, model: Model, node: Any) -> Claim:
    """Convert a convolution or product of constants or computed values; return its exactness."""
    if len(node.input) < _FEWEST:
        raise Unsupported("lacks some of its inputs")
    held = node.op_type == "QLinearConv" or node.input[_SECOND] in model.constants
    if not held:
        return convert_product(values, model, node)
    layer = layer_of(model, node)
    if layer is None:
        raise Unsupported("lacks some of its inputs")
    return convert_layer(values, layer)


#: Converters of operators on bytes, by operator name. The first data input and the output must be
#: bytes.
_INTEGERS: dict[str, Callable[[Values, Model, Any], Claim]] = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QGemm"), _convert_layer),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), convert_average),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid"), convert_unary),
    "QLinearAdd": convert_sum,
    "QLinearConcat": convert_join,
    "QLinearMul": convert_pair_product,
    "QLinearWhere": convert_integer_choice,
}


#: Number of indices reserved for each operator of the model: its own, and those of operators that
#: are appended for it.
_INDICES_PER_OPERATOR = 16
#: Share of differing results above which ONNX Runtime always runs an operator. For averages with
#: equal scales, one sum in four may be a half, which ONNX Runtime rounds to even.
_MAX_DIFFERING_SHARE = 0.01


def operator_name(node: Any) -> str:
    """Return an operator's name, with its domain unless it is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _is_reshape(item: Node | OpaqueOperator) -> bool:
    """Return whether an operator is a RESHAPE, which moves no byte and may be left out."""
    return isinstance(item, Node) and item.op is Op.RESHAPE


class Conversion:
    """Conversion of the operators of one model, in order.

    Members
    -------
    values:
        The values of the model as tensors of the graph, with the operators added so far.
    claims:
        Claims about operators on the engine, by the operator's index.
    custom_or_loops:
        Number of operators registered by users and of loops with layers in their bodies, which the
        engine may run although they have no claim.
    """

    def __init__(
        self,
        model: Any,
        numbers: dict[str, int],
        known: dict[str, FileValue],
        floating: frozenset[str],
        exact: bool,
    ) -> None:
        self.graph, self.numbers, self.exact = model.graph, numbers, exact
        self.model = Model(model)
        self.values = Values(numbers, known, _INDICES_PER_OPERATOR * len(self.graph.node))
        self.claims: dict[int, Claim] = {}
        self.custom_or_loops = 0
        self._floating = floating
        self._reasons: dict[int, str] = {}
        self._readers: dict[str, list[Any]] = {}
        for node in self.graph.node:
            for name in values_read(node):
                self._readers.setdefault(name, []).append(node)

    def run(self, inputs: list[str], outputs: list[str]) -> list[int]:
        """Convert all operators; return the tensor numbers of the outputs.

        `inputs` and `outputs` are the names of the network's inputs and outputs.
        """
        for name in inputs:
            self.values.provide(name)
            self._declare_as_read(name)
        # Some conversions append operators.
        for at, node in enumerate(list(self.graph.node)):
            self._convert(at, node)
        found = [self.values.file_tensor(name) for name in outputs]
        transpose_on_host(self.values, self.model, found)
        return found

    def _convert(self, index: int, node: Any) -> None:
        """Convert an ONNX node for the engine, or keep it for an interpreter if impossible."""
        own, marked = registered_node(node), self.values.mark()
        try:
            if own is not None:
                add_registered(self.values, self.model, own, node, index)
                self.custom_or_loops += 1
                return
            if self._convert_for_engine(index, node):
                return
        except Unsupported as unsupported:
            self._reasons[id(node)] = str(unsupported)
            self.values.undo(marked)
            if run_channels_last(self.values, self.model, node, str(unsupported)):
                return
        self._keep_opaque(index, node)

    def _convert_for_engine(self, index: int, node: Any) -> bool:
        """Convert an operator if the engine supports it; return whether it does."""
        if node.op_type in _INTEGERS:
            self._convert_integer(node)
            return True
        if node.op_type == "MatMulInteger":
            exact = convert_integer_product(self.values, self.model, node)
            self.claims[self.values.operators[-1].index] = exact
            return True
        if node.op_type == "QuantizeLinear":
            claim = convert_transposed(self.values, self.model, index)
            claim = claim or convert_function(self.values, self.model, index)
            claim = claim or convert_channels(self.values, self.model, index)
            claim = claim or convert_choice(self.values, self.model, index)
            claim = claim or convert_mean(self.values, self.model, index)
            if claim is not None and self._is_rejected(claim):
                raise Unsupported(str(claim))
            if claim is not None:
                made = reversed(self.values.operators)
                self.claims[next(each.index for each in made if not _is_reshape(each))] = claim
            return claim is not None or convert_move(self.values, self.model, index)
        known = self.values.known
        if node.op_type not in MOVES or not node.input or node.domain not in ("", "ai.onnx"):
            return False
        source, result = node.input[0], node.output[0]
        if result not in known or not self.values.is_bytes(source):
            return False
        if not known[source].held and not self._leads_to_engine(result):
            return False
        MOVES[node.op_type](self.values, self.model, node, source, result)
        return True

    def _convert_integer(self, node: Any) -> None:
        """Convert an operator on integers.

        If too many of its results can differ from ONNX Runtime's, ONNX Runtime runs the channels
        with such results; `Unsupported` is raised if the operator cannot be split by channel.
        """
        first = 2 if node.op_type == "QLinearConcat" else 0
        for name in (*node.input[first : first + 1], *node.output[:1]):
            value = self.values.known.get(name)
            if value is None and name not in self.model.constants:
                raise Unsupported(f"has {name!r}, whose shape is known only at run time")
            if value is not None and value.dtype not in ("int8", "uint8"):
                raise Unsupported(f"has {name!r} of {value.dtype}")
        before = len(self.values.operators)
        claim = _INTEGERS[node.op_type](self.values, self.model, node)
        claim = replace(claim, floating=node.name in self._floating)
        made = self.values.operators[before:]
        if self._is_rejected(claim):
            claim = split_channels(self.values, self.model, node, claim)
        if made:
            self.claims[made[-1].index] = claim

    def _is_rejected(self, claim: Claim) -> bool:
        """Return whether more results than allowed can differ from ONNX Runtime's."""
        often = claim.differing > _MAX_DIFFERING_SHARE * claim.reachable
        return often or (self.exact and not claim.is_proven)

    def _leads_to_engine(self, name: str) -> bool:
        """Return whether an operator on the engine reads a value, directly or through moves."""
        readers = self._readers.get(name, [])
        return any(
            reader.op_type in _INTEGERS
            or (reader.op_type in MOVES and any(map(self._leads_to_engine, reader.output)))
            for reader in readers
        )

    def _keep_opaque(self, index: int, node: Any) -> None:
        """Leave an operator to ONNX Runtime."""
        inputs = []
        for name in values_read(node):
            if name in self.model.constants:
                inputs.append(self.numbers[name])
            elif name in self.values.known:
                inputs.append(self.values.file_tensor(name))
            elif name in self.numbers:
                inputs.append(self.numbers[name])
        name, alone = operator_name(node), is_layered_loop(node)
        made = self.values.known.get(node.output[0]) if node.output else None
        reason = self._reasons.get(id(node)) or usual_reason(node, made.dtype if made else None)
        self.custom_or_loops += alone
        self.values.operators.append(
            OpaqueOperator(
                name=name,
                index=index,
                inputs=tuple(inputs),
                outputs=tuple(
                    self.values.opaque_output(output) for output in node.output if output
                ),
                reason=f"{name} {reason}",
                interpreters=ONNX_INTERPRETERS,
                has_own_node=alone,
            )
        )
        self._declare(node)
        for output in node.output if alone else ():
            self._declare_as_read(output)

    def _declare_as_read(self, name: str) -> None:
        """Record a value's quantisation as stated by the operators that read it.

        These are operators on integers that read the value directly, or after it was moved.
        """
        value, stated = self.values.known.get(name), self._stated_quantisation(name)
        if value is not None and value.dtype in ("int8", "uint8") and stated is not None:
            self.values.declare(name, stated)

    def _stated_quantisation(self, name: str) -> Quantisation | None:
        """Return the quantisation that a node which reads a value states for it, or None."""
        for node in self._readers.get(name, []):
            if node.op_type in MOVES:
                found = self._stated_quantisation(node.output[0])
                if found is not None:
                    return found
            elif node.op_type in _INTEGERS and name in node.input:
                # Scale and zero point follow each operand.
                at = list(node.input).index(name)
                try:
                    return quantisation_of(self.model, *[*node.input, "", ""][at + 1 : at + 3])
                except Unsupported:
                    continue
        return None

    def _declare(self, node: Any) -> None:
        """Record the quantisation that an operator gives its output, if it is a QuantizeLinear."""
        result = node.output[0] if node.output else ""
        if node.op_type != "QuantizeLinear" or result not in self.values.known:
            return
        if self.values.known[result].dtype in ("int8", "uint8") and len(node.input) > 1:
            try:
                quantisation = quantisation_of(self.model, node.input[1], "".join(node.input[2:3]))
            except Unsupported:
                return
            self.values.declare(result, quantisation)
