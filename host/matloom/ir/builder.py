"""Builds graphs operator by operator, for tests, examples and readers of model files."""

from collections.abc import Sequence

from matloom.ir.attributes import Attributes
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor, Variable
from matloom.ir.operators import OPERATORS
from matloom.ir.verify import verify

Shape = tuple[int, ...]


class GraphBuilder:
    """A graph under construction; tensors are identified by number.

    Output shapes follow from the operators' rules. An output has the type and quantisation of the
    operator's first input unless others are given.

    >>> import numpy as np
    >>> from matloom.ir.attributes import Activation, FullyConnected
    >>> scale = Quantisation(scale=(0.1,), zero_point=(0,))
    >>> builder = GraphBuilder("dense")
    >>> x = builder.input("x", (1, 2), "int8", scale)
    >>> weights = builder.constant(np.ones((3, 2), np.int8), scale)
    >>> dense = FullyConnected(keep_num_dims=False, activation=Activation.NONE)
    >>> y = builder.add(Op.FULLY_CONNECTED, [x, weights], dense)
    >>> builder.graph(builder.add(Op.RELU, [y])).tensors[y].shape
    (1, 3)
    """

    def __init__(self, name: str = "network") -> None:
        self.name = name
        self.tensors: dict[int, Tensor] = {}
        self._nodes: list[Node] = []
        self._inputs: list[int] = []
        self._variables: list[Variable] = []

    def tensor(self, tensor: Tensor) -> int:
        """Add a tensor that an operator will compute, or a constant; return its number."""
        number = len(self.tensors)
        self.tensors[number] = tensor
        return number

    def input(
        self, name: str, shape: Shape, dtype: str, quantisation: Quantisation | None = None
    ) -> int:
        """Add an input of the network; return its number."""
        tensor = Tensor(name=name, shape=shape, dtype=dtype, quantisation=quantisation)
        self._inputs.append(self.tensor(tensor))
        return self._inputs[-1]

    def constant(
        self, data: Array, quantisation: Quantisation | None = None, name: str = ""
    ) -> int:
        """Add a constant; return its number."""
        return self.tensor(Tensor.constant(name or self._next_name(), data, quantisation))

    def variable(self, name: str, initial: Array, quantisation: Quantisation | None = None) -> int:
        """Add a variable; return the tensor number of its value at the start of a call.

        It keeps this value unless `assign` is called.
        """
        before = self.tensor(
            Tensor(
                name=name,
                shape=initial.shape,
                dtype=initial.dtype.name,
                quantisation=quantisation,
            )
        )
        added = Variable(name=name, before=before, after=before, initial=initial)
        self._variables.append(added)
        return before

    def assign(self, before: int, after: int) -> None:
        """Make tensor `after` the next value of the variable that tensor `before` holds.

        `before` is the tensor number that `variable` returned.
        """
        self._variables = [
            Variable(name=known.name, before=before, after=after, initial=known.initial)
            if known.before == before
            else known
            for known in self._variables
        ]

    def add(
        self,
        op: Op,
        inputs: Sequence[int],
        attributes: Attributes | None = None,
        *,
        quantisation: Quantisation | None = None,
        shape: Shape | None = None,
        dtype: str | None = None,
        name: str = "",
    ) -> int:
        """Add an operator with one output; return the output's tensor number.

        `shape` is needed for operators whose rule does not determine it, such as RESHAPE.

        Raises
        ------
        ValueError
            The inputs and attributes do not fit the operator.
        """
        first = self.tensors[inputs[0]]
        tensor = Tensor(
            name=name or self._next_name(),
            shape=self.shapes(op, inputs, attributes)[0] if shape is None else shape,
            dtype=dtype or first.dtype,
            quantisation=quantisation or (None if dtype else first.quantisation),
        )
        output = self.tensor(tensor)
        self.node(op, inputs, [output], attributes)
        return output

    def shapes(
        self, op: Op, inputs: Sequence[int], attributes: Attributes | None = None
    ) -> list[Shape]:
        """Return the output shapes that the operator's rule determines.

        Raises
        ------
        ValueError
            The operator has no such rule, or inputs and attributes do not fit it.
        """
        rules, input_shapes = OPERATORS[op], [self.tensors[number].shape for number in inputs]
        attributes = Attributes() if attributes is None else attributes
        if rules.output_shapes is not None:
            return rules.output_shapes(input_shapes, attributes)
        if rules.shape is None:
            raise ValueError(f"the output's shape must be given for {op}")
        return [rules.shape(input_shapes, attributes)]

    def node(
        self,
        op: Op,
        inputs: Sequence[int],
        outputs: Sequence[int],
        attributes: Attributes | None = None,
    ) -> None:
        """Add an operator whose output tensors exist already."""
        self._nodes.append(
            Node(
                op=op,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                attributes=Attributes() if attributes is None else attributes,
                index=len(self._nodes),
            )
        )

    def graph(self, *outputs: int) -> Graph:
        """Return the finished graph.

        Raises
        ------
        ValueError
            The graph breaks a rule (`matloom.ir.verify`).
        """
        graph = Graph(
            name=self.name,
            inputs=tuple(self._inputs),
            outputs=outputs,
            tensors=dict(self.tensors),
            nodes=tuple(self._nodes),
            variables=tuple(self._variables),
        )
        verify(graph, self.name)
        return graph

    def _next_name(self) -> str:
        """Return a name for the tensor to be added next."""
        return f"tensor_{len(self.tensors)}"
