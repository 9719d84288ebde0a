"""Parts of a loop whose number of iterations is known only at run time."""

from dataclasses import dataclass, replace

import numpy as np

from matloom.ir.graph import Array, Graph, Variable


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopParts:
    """A loop of a model file, as separate graphs.

    Members
    -------
    operands:
        Inputs of the loop: numbers of the file's tensors, or constants. The first `carried` are
        initial values; the others are the same in all iterations.
    carried:
        Number of values passed from one iteration to the next.
    results:
        Numbers of the loop's output tensors in the file: the carried values, then the stacked ones.
    body:
        One iteration. Its inputs are the operands, and its first outputs the carried values;
        further outputs are stacked over all iterations.
    condition:
        Decides before each iteration, from the carried values, whether it runs. None for loops with
        a counter, as in ONNX. Such a body has two more inputs before the others, the index of the
        iteration and whether to continue, and one more output before the others, whether to
        continue. The first two operands are then the maximum number of iterations and whether to
        start; `carried` does not count them.
    """

    operands: tuple[int | Array, ...]
    carried: int
    results: tuple[int, ...]
    body: Graph
    condition: Graph | None = None

    def body_with_state(self) -> Graph:
        """Return the body with carried values as variables, except those that the condition reads.

        The name of a variable is its index among the carried values, as text. Its initial value is
        zero.
        """
        graph, counts = self.body, self.condition is None
        begins, ends = graph.inputs[2 * counts :], graph.outputs[counts:]
        kept = [at for at in range(self.carried) if at not in self._read_by_condition()]
        before, after = [begins[at] for at in kept], [ends[at] for at in kept]
        return replace(
            graph,
            inputs=tuple(number for number in graph.inputs if number not in before),
            outputs=tuple(number for number in graph.outputs if number not in after),
            variables=tuple(
                Variable(
                    name=str(at),
                    before=first,
                    after=last,
                    initial=np.zeros(graph.tensors[first].shape, graph.tensors[first].dtype),
                )
                for at, first, last in zip(kept, before, after, strict=True)
            ),
        )

    def _read_by_condition(self) -> set[int]:
        """Return the indices of the carried values that the condition reads."""
        if self.condition is None:
            return set()
        used = {number for node in self.condition.nodes for number in node.inputs}
        return {at for at, number in enumerate(self.condition.inputs) if number in used}
