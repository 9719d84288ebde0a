"""Emits the loops of a program as C structures, which a kernel interprets."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from matloom.program import HostStep, Program
from matloom.program.host_steps import COUNTS
from matloom.program.records import TensorInfo


class CBytes(NamedTuple):
    """C expression of the address of a value, and the value's size in bytes."""

    text: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class CProgram:
    """A program in C: the network's, or the body or condition of a loop.

    Members
    -------
    name:
        C name of a loop's program; empty for the network's.
    buffers:
        C names of the tensors' buffers, by key.
    loops:
        Programs of each loop, by the index of its step: the body, and the condition if it has one.
    """

    program: Program
    name: str
    buffers: Mapping[str, str]
    loops: "Mapping[int, tuple[CProgram, ...]]"

    def loop_programs(self) -> "list[CProgram]":
        """Return the programs of all loops, preceded by those of loops inside them."""
        parts = [part for parts in self.loops.values() for part in parts]
        return [*(inner for part in parts for inner in part.loop_programs()), *parts]

    def places(self, infos: Iterable[TensorInfo]) -> list[CBytes]:
        """Return the buffers of tensors, in order."""
        return [CBytes(self.buffers[info.key], _size_bytes(info)) for info in infos]


def emit_loop(
    name: str,
    step: HostStep,
    parts: Sequence[CProgram],
    operands: Sequence[str],
    outputs: Sequence[CBytes],
) -> list[str]:
    """Return the C lines that define a loop and the buffers of its values.

    Parameters
    ----------
    name
        C name of the loop.
    parts
        Programs of the loop: its body, and its condition if it has one.
    operands
        C expressions of the step's inputs, without the programs.
    outputs
        Buffers of the loop's outputs.
    """
    loop = _Loop(name, step.attributes["carried"], parts, operands)
    loop.add_results(list(zip(outputs, step.attributes["results"], strict=True)))
    return loop.lines()


class _Loop:
    """Collects the C definition of a loop: fields, copies, and buffers of carried values.

    Carried values are those that one iteration passes to the next.
    """

    def __init__(
        self, name: str, carried: int, parts: Sequence[CProgram], operands: Sequence[str]
    ) -> None:
        self._name, self._carried, (body, *conditions) = name, carried, parts
        counts = 0 if conditions else COUNTS
        variables = {int(each.name): each.before for each in body.program.variables}
        self._in_variables = [*variables]
        self._plain = [at for at in range(carried) if at not in variables]
        inputs, outputs = body.places(body.program.inputs), body.places(body.program.outputs)
        self._inputs, self._outputs = inputs[counts:], outputs[bool(counts) :]
        infos = {info.key: info for info in body.program.tensors}
        sizes = {at: each.bytes for at, each in zip(self._plain, self._inputs, strict=False)}
        sizes |= {at: _size_bytes(infos[key]) for at, key in variables.items()}
        self._own = {at: CBytes(f"{name}_value_{at}", sizes[at]) for at in range(carried)}
        self._fields = {"body": f"&{body.name}"}
        self._copies: dict[str, list[tuple[str, CBytes]]] = {
            side: [] for side in ("before", "entering", "leaving", "stacked", "after")
        }
        self._values = operands[counts:]
        self._add_copies()
        if conditions:
            self._add_condition(conditions[0])
        else:
            self._add_count(operands, inputs[:counts], outputs[0])

    def _add_copies(self) -> None:
        """Add the copies of carried values and fixed inputs between the loop and its body.

        Carried values are copied to the body's inputs before an iteration, and back from its
        outputs; fixed inputs once, before the first iteration.
        """
        for at, to, source in zip(self._plain, self._inputs, self._outputs, strict=False):
            own = self._own[at]
            self._copies["before"].append((own.text, CBytes(self._values[at], own.bytes)))
            self._copies["entering"].append((to.text, own))
            self._copies["leaving"].append((own.text, source))
        fixed = self._inputs[len(self._plain) :], self._values[self._carried :]
        for to, value in zip(*fixed, strict=True):
            self._copies["before"].append((to.text, CBytes(value, to.bytes)))

    def _add_condition(self, condition: CProgram) -> None:
        """Add the program of the condition, which decides whether another iteration follows."""
        reads = condition.places(condition.program.inputs)
        self._copies["entering"] += [(reads[at].text, self._own[at]) for at in self._plain]
        (answer,) = condition.places(condition.program.outputs)
        self._fields["condition"] = f"&{condition.name}"
        self._fields["goes_on"] = f"(const uint8_t*){answer.text}"

    def _add_count(
        self, operands: Sequence[str], sources: Sequence[CBytes], target: CBytes
    ) -> None:
        """Add the maximum number of iterations, and the flag by which the body ends the loop."""
        on = self._own[self._carried] = CBytes(f"{self._name}_on", 1)
        self._copies["before"].append((on.text, CBytes(operands[1], 1)))
        self._copies["entering"].append((sources[1].text, on))
        self._copies["leaving"].append((on.text, target))
        self._fields |= {"goes_on": on.text, "most": f"(const int64_t*){operands[0]}"}
        self._fields["iteration"] = f"(int64_t*){sources[0].text}"

    def add_results(self, results: Sequence[tuple[CBytes, int]]) -> None:
        """Add the copies of results to the loop's outputs.

        Each item has an output's buffer and the index of its result. Indices below the number of
        carried values mean the carried value after the last iteration; higher ones mean the results
        of all iterations, stacked.
        """
        stacked = self._outputs[len(self._plain) :]
        for to, at in results:
            if at < self._carried:
                self._copies["after"].append((to.text, self._own[at]))
            else:
                row = stacked[at - self._carried]
                self._copies["stacked"].append((to.text, row))
                self._fields["iterations"] = f"{to.bytes // max(1, row.bytes)}u"

    def lines(self) -> list[str]:
        """Return the C lines that define the loop and its buffers."""
        name, fields = self._name, dict(self._fields)
        lines = [
            f"static _Alignas(16) uint8_t {e.text}[{max(1, e.bytes)}];" for e in self._own.values()
        ]
        if self._in_variables:
            begin = ", ".join(self._values[at] for at in self._in_variables)
            end = ", ".join(self._own[at].text for at in self._in_variables)
            lines.append(f"static const void* const {name}_begin[] = {{{begin}}};")
            lines.append(f"static void* const {name}_end[] = {{{end}}};")
            fields |= {"begin": f"{name}_begin", "end": f"{name}_end"}
        for side, pairs in self._copies.items():
            if pairs:
                rows = ", ".join(f"{{{to}, {each.text}, {each.bytes}u}}" for to, each in pairs)
                lines.append(f"static const struct matloom_move {name}_{side}[] = {{{rows}}};")
                fields[side] = f"{{{name}_{side}, {len(pairs)}u}}"
        rows = "".join(f"    .{field} = {value},\n" for field, value in fields.items())
        return [*lines, f"static const struct matloom_loop {name} = {{\n{rows}}};"]


def _size_bytes(info: TensorInfo) -> int:
    """Return the size of a tensor in bytes."""
    return math.prod(info.shape) * np.dtype(info.dtype).itemsize
