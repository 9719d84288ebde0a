"""Rules for mutants of the scheduler: each changes one place in a function."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["RULES", "Changer"]

_Change = Callable[[ast.AST], ast.AST | None]

_BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def _term_dropped(node: ast.AST) -> ast.AST | None:
    sums = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
    return node.left if sums and isinstance(node, ast.BinOp) else None


def _operands_swapped(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.FloorDiv | ast.Mod):
        return ast.BinOp(left=node.right, op=node.op, right=node.left)
    return None


def _one_more(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(value=node.value + 1)
    return None


def _minimum_for_maximum(node: ast.AST) -> ast.AST | None:
    other = {"min": "max", "max": "min"}
    if isinstance(node, ast.Name) and node.id in other:
        return ast.Name(id=other[node.id], ctx=node.ctx)
    return None


def _bound_moved(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _BOUNDS:
        first = _BOUNDS[type(node.ops[0])]()
        return ast.Compare(left=node.left, ops=[first, *node.ops[1:]], comparators=node.comparators)
    return None


def _condition_forgotten(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BoolOp):
        rest = node.values[1:]
        return rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
    if isinstance(node, ast.IfExp):
        return node.body
    leaves = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Continue)
    return ast.Pass() if leaves else None


def _update_forgotten(node: ast.AST) -> ast.AST | None:
    """Drop an update of state: a live range, an address, or the progress of the work."""
    targets: Sequence[ast.AST] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    kept = any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return ast.Pass() if kept else None


RULES: dict[str, _Change] = {
    "term dropped": _term_dropped,
    "operands swapped": _operands_swapped,
    "one more": _one_more,
    "minimum for maximum": _minimum_for_maximum,
    "bound moved": _bound_moved,
    "condition forgotten": _condition_forgotten,
    "update forgotten": _update_forgotten,
}


class Changer(ast.NodeTransformer):
    """Applies a rule at the place with a number; None only counts places."""

    def __init__(self, rule: str, place: int | None) -> None:
        self.rule, self.place = RULES[rule], place
        self.lines: list[int] = []

    def visit(self, node: ast.AST) -> Any:
        """Change a node or its children; messages and assertions are not changed."""
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.arguments):
            return node
        changed = self.rule(node)
        if changed is not None:
            self.lines.append(getattr(node, "lineno", 0))
            if len(self.lines) - 1 == self.place:
                return changed
        return self.generic_visit(node)
