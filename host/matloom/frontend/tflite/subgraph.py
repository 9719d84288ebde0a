"""Converts one subgraph of a TensorFlow Lite file to a graph."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tflite

from matloom.frontend.ends import copy_outputs, separate_inputs
from matloom.frontend.errors import Contradiction, MisreadInMicro, ModelError, Unsupported, error_of
from matloom.frontend.opaque import (
    OpaqueOperator,
    common_interpreters,
    file_tensor,
    interpreters_of,
    merge_opaque,
    whole_network_node,
)
from matloom.frontend.tflite.additions import Additions, FileItem
from matloom.frontend.tflite.byte_tables import join_tables
from matloom.frontend.tflite.compiled import code_name
from matloom.frontend.tflite.control import is_layered_loop
from matloom.frontend.tflite.custom import custom_nodes
from matloom.frontend.tflite.declared import unknown_operator
from matloom.frontend.tflite.expanded import CONVERTERS
from matloom.frontend.tflite.flatbuffer import numbers, options, records, text
from matloom.frontend.tflite.options import READERS
from matloom.frontend.tflite.order import repeated_writer, require_provided
from matloom.frontend.tflite.parameters import OPERANDS
from matloom.frontend.tflite.tensors import FileTensors
from matloom.frontend.tflite.variables import VARIABLE_OPERATORS, Resources
from matloom.frontend.tflite.whole_networks import reason_to_stay_whole
from matloom.ir.attributes import INTERPRETERS
from matloom.ir.graph import OWN_OPERATORS, RESHAPES, Array, Graph, Node, Op, Tensor
from matloom.ir.names import input_and_output_names
from matloom.ir.node_rules import node_problems
from matloom.ir.operators import OPERATORS
from matloom.ir.scales import MULTIPLIER_INPUT
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.kernels.run_time_shapes import has_run_time_shape

GRAPH_OPERATORS = frozenset(Op) - OWN_OPERATORS - {Op.REFERENCE}


class SubgraphReader:
    """Converter of one subgraph of a file; `subgraph` is its index."""

    def __init__(self, content: bytes, subgraph: int = 0):
        self.model = tflite.Model.GetRootAs(content)
        count = self.model.SubgraphsLength()
        if not 0 <= subgraph < count:
            raise ModelError(f"a model must have a subgraph {subgraph}, not {count} subgraphs")
        self.content = content
        self.subgraph = self.model.Subgraphs(subgraph)
        self.codes = [code_name(code) for code in records(self.model, "OperatorCodes")]
        self.known = FileTensors(content, self.model, self.subgraph)
        self.tensors: dict[int, Tensor] = {}
        self.resources = Resources()
        #: Numbers of the tensors whose shape is known only at run time.
        self.unsized: set[int] = set()
        add, hold = self._add, self.resources.hold
        self._additions = Additions(known=self.known, use=self._use, add=add, hold=hold)

    def graph(self, name: str) -> Graph:
        """Return the subgraph as a graph; if it must run as a whole, with one REFERENCE node."""
        inputs, outputs = (numbers(self.subgraph, at).tolist() for at in ("Inputs", "Outputs"))
        if not outputs:
            raise ModelError("a model must have outputs")
        names, operators = self._operators()
        require_provided(self.known, names, operators, (inputs, outputs))
        reason = reason_to_stay_whole(self.known, names, operators)
        if reason is None:
            reason = repeated_writer(self.known, names, operators, inputs)
        interpreters = INTERPRETERS
        try:
            items = self._items(names, operators)
            interpreters = common_interpreters(items)
            if reason is None:
                return self._graph(name, inputs, outputs, items)
        # A tensor between the parts of graph and interpreter has no NumPy type.
        except Unsupported as unsupported:
            reason = reason or f"the network runs as a whole: {unsupported}"
        node = whole_network_node(names, reason, (), (), interpreters)
        return self._opaque_graph(name, inputs, outputs, node)

    def _opaque_graph(self, name: str, inputs: list[int], outputs: list[int], node: Node) -> Graph:
        """Return a graph in which `node`, given without inputs and outputs, runs all operators."""
        self.tensors, self.resources = {}, Resources()
        for number in inputs:
            self._use(number)
        separated = separate_inputs(inputs, self.tensors, self._new_number())
        copies = []
        for number in outputs:
            tensor = self.known.opaque_tensor(number)
            used = number in self.tensors or tensor.data is not None
            copies.append(self._new_number() if used else number)
            self.tensors[copies[-1]] = replace(tensor, data=None)
        file = len(self.known)
        self.tensors[file] = file_tensor(self.content)
        node = replace(node, inputs=(*separated, file), outputs=tuple(copies))
        return self._finish(name, separated, tuple(copies), [node])

    def assigned_values(self) -> dict[str, Array]:
        """Run the subgraph; return the values that it assigns to variables, by name."""
        items = self._items(*self._operators())
        for item in items:
            if isinstance(item, OpaqueOperator):
                raise Unsupported(f"operator {item.index} ({item.name}) has no kernel here")
        after = self.resources.after
        graph = Graph(
            name="initialisation",
            inputs=(),
            outputs=tuple(dict.fromkeys(after.values())),
            tensors=self.tensors,
            nodes=tuple(item for item in items if isinstance(item, Node)),
        )
        verify(graph, graph.name)
        results = interpret(graph, {})
        return {name: results[number] for name, number in after.items()}

    def _graph(
        self,
        name: str,
        inputs: list[int],
        outputs: list[int],
        items: Sequence[Node | OpaqueOperator],
    ) -> Graph:
        """Return a graph with the nodes in `items`, and its opaque operators in REFERENCE nodes."""
        for number in (*inputs, *outputs):
            self._use(number)
        results = (*outputs, *self.resources.after.values())
        nodes = merge_opaque(items, results, len(self.known), self.known.is_computed)
        for node in nodes:
            if node.op is Op.REFERENCE and node.inputs[-1] == len(self.known):
                self.tensors[node.inputs[-1]] = file_tensor(self.content)
                for number in (*node.inputs[:-1], *node.outputs):
                    self._use(number)
        separated = separate_inputs(inputs, self.tensors, self._new_number())
        distinct, copies = copy_outputs(outputs, self.tensors, self._new_number(), nodes)
        return self._finish(name, separated, distinct, [*nodes, *copies])

    def _finish(
        self, name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], nodes: list[Node]
    ) -> Graph:
        """Return the graph, with its variables, and with unique names of inputs and outputs."""
        variables = self.resources.finish(self.tensors, self._new_number())
        file_names = {number: tensor.name for number, tensor in self.tensors.items()}
        for number, end in input_and_output_names(file_names, (inputs, outputs)).items():
            self.tensors[number] = replace(self.tensors[number], name=end)
        return Graph(
            name=name,
            inputs=inputs,
            outputs=outputs,
            tensors=self.tensors,
            nodes=tuple(nodes),
            variables=variables,
        )

    def _new_number(self) -> int:
        """Return a tensor number above all that are used in the file and the graph."""
        return max([len(self.known), *self.tensors]) + 1

    def _operators(self) -> tuple[list[str], list[Any]]:
        """Return the names of all operators, and the operators, both in order of execution."""
        operators = list(records(self.subgraph, "Operators"))
        return [self._name(*each) for each in enumerate(operators)], operators

    def _items(self, names: list[str], operators: list[Any]) -> list[Node | OpaqueOperator]:
        """Return the nodes and opaque operators for all operators of the file, in order."""
        items: list[Node | OpaqueOperator] = []
        for place in zip(range(len(names)), names, operators, strict=True):
            own = custom_nodes(self.model, place, self._used_tensor, self._add)
            items += self._item(*place) if own is None else own
        return join_tables(items, operators, self._additions, numbers(self.subgraph, "Outputs"))

    def _add(self, tensor: Tensor) -> int:
        """Add a tensor that the file does not have; return its number."""
        number = self._new_number()
        self.tensors[number] = tensor
        return number

    def _name(self, index: int, operator: Any) -> str:
        """Return the name of an operator's kind, such as CONV_2D."""
        code = operator.OpcodeIndex()
        if not 0 <= code < len(self.codes):
            raise ModelError(f"operator {index} must be one of {len(self.codes)} kinds, not {code}")
        return str(self.codes[code])

    def _item(self, index: int, name: str, operator: Any) -> Sequence[Node | OpaqueOperator]:
        """Return an operator's nodes, or one opaque operator; none if it declares a variable."""
        inputs, outputs = (numbers(operator, side).tolist() for side in ("Inputs", "Outputs"))
        ends = inputs, outputs
        try:
            for number in self.unsized.intersection(inputs):
                raise Contradiction(f"reads tensor {number}, whose shape is known only at run time")
            if name in VARIABLE_OPERATORS:
                return self._convert_variable(name, index, operator, *ends)
            if name in CONVERTERS:
                item = FileItem(index, name, operator, inputs, outputs)
                return CONVERTERS[name](item, self._additions)
            if name not in GRAPH_OPERATORS:
                raise unknown_operator(name, self.known, *ends)
            return [self._node(Op(name), index, operator, *ends)]
        except Unsupported as unsupported:
            if name in VARIABLE_OPERATORS:
                raise Unsupported(f"{name} {unsupported}") from None
            run_time_shape = has_run_time_shape(name, inputs, self.known.is_computed)
            if run_time_shape or isinstance(unsupported, Contradiction):
                self.unsized.update(outputs)
            dtype, misread = self.known.dtype(inputs), isinstance(unsupported, MisreadInMicro)
            opaque = OpaqueOperator(
                name=name,
                index=index,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                reason=f"{name} {unsupported}",
                interpreters=interpreters_of(
                    name, dtype, misread=misread, run_time_shape=run_time_shape
                ),
                has_own_node=is_layered_loop(self.known, name, operator),
            )
            return [opaque]
        except ModelError as error:
            raise ModelError(f"operator {index} ({name}) {error}") from None

    def _convert_variable(
        self, name: str, index: int, operator: Any, inputs: list[int], outputs: list[int]
    ) -> list[Node]:
        """Convert an operator on variables; return a node if it copies a tensor, else nothing."""
        if (len(inputs), len(outputs)) != VARIABLE_OPERATORS[name]:
            expected = " and ".join(map(str, VARIABLE_OPERATORS[name]))
            raise ModelError(f"must have {expected} inputs and outputs, not {inputs} and {outputs}")
        if name == "CALL_ONCE":
            subgraph = options(operator, tflite.CallOnceOptions).InitSubgraphIndex()
            last = self.model.SubgraphsLength() - 1
            if not 1 <= subgraph <= last:
                raise ModelError(f"must name a subgraph of 1 to {last}, not {subgraph}")
            try:
                self.resources.begin(SubgraphReader(self.content, subgraph).assigned_values())
            except ModelError as error:
                raise type(error)(f"names subgraph {subgraph}, whose {error}") from None
        elif name == "VAR_HANDLE":
            table = options(operator, tflite.VarHandleOptions)
            parts = [text(table.Container()), text(table.SharedName())]
            self.resources.names[outputs[0]] = "/".join(filter(None, parts))
        elif name == "ASSIGN_VARIABLE":
            self.resources.assign(inputs[0], self._use(inputs[1]))
        else:
            source = self.resources.read(inputs[0], self._use(outputs[0]))
            if source is not None:
                return [Node(op=Op.RESHAPE, inputs=(source,), outputs=(outputs[0],), index=index)]
        return []

    def _node(
        self, op: Op, index: int, operator: Any, inputs: list[int], outputs: list[int]
    ) -> Node:
        """Return an operator of the file as a node, without inputs that only hold parameters."""
        while inputs and inputs[-1] == -1:
            del inputs[-1]
        if not inputs or not outputs or -1 in inputs:
            raise Contradiction(f"must have its inputs and outputs, not {inputs} and {outputs}")
        if op in RESHAPES:
            del inputs[1:]
        read, written = ([self.known[number] for number in side] for side in (inputs, outputs))
        attributes = READERS[op](operator, read, written)
        kept = [at for at in OPERANDS.get(op, range(len(inputs))) if at < len(inputs)]
        node = Node(
            op=op,
            inputs=tuple(inputs[at] for at in kept),
            outputs=tuple(outputs),
            attributes=attributes,
            index=index,
        )
        if len(kept) > MULTIPLIER_INPUT.get(op, len(kept)):
            raise Contradiction(f"must have {MULTIPLIER_INPUT[op]} inputs at most, not {len(kept)}")
        tensors = dict(zip((*inputs, *outputs), (*read, *written), strict=True))
        for problem in node_problems(tensors, node):
            raise error_of(problem)
        if OPERATORS[op].weight_axis is not None and self.known.is_4_bit(node.inputs[1]):
            dtype, scales = tensors[node.inputs[0]].dtype, tensors[node.inputs[1]].quantisation
            channels = scales is not None and scales.axis is not None
            if dtype == "int16" or (op is Op.FULLY_CONNECTED and channels):
                raise Unsupported(f"of {dtype} has 4-bit weights that LiteRT alone runs")
        for number in (*node.inputs, *node.outputs):
            self._use(number)
        return node

    def _used_tensor(self, number: int) -> Tensor:
        """Return a tensor of the file, which is added to the graph."""
        return self.tensors[self._use(number)]

    def _use(self, number: int) -> int:
        """Add a tensor of the file to the graph; return `number`."""
        self.tensors[number] = self.known.opaque_tensor(number)
        return number
