"""Rules that make one small fault at a time in a source text."""

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass

_OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_COMPARISONS = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_REDUCTIONS = {"any": "all", "all": "any"}

#: Arguments that say nothing of what the hardware does.
_SILENT = frozenset({"name", "attrs", "doc", "reset_less", "path", "src_loc_at"})


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A source text with one deliberate fault.

    `key` identifies the mutant by what it changes and where, and stays the same while other lines
    of the file change. `before` and `after` are the replaced text and its replacement, `source` is
    the whole text.
    """

    key: str
    rule: str
    line: int
    before: str
    after: str
    source: str


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a file, in source order."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    lines, seen, found = source.splitlines(), Counter(), []
    for start, end, rule, after in sorted(finder.edits):
        line = source.count("\n", 0, start) + 1
        text = lines[line - 1].strip()
        column = start - source.index(text, source.rfind("\n", 0, start) + 1)
        identity = (path, rule, text, column, source[start:end], after)
        seen[identity] += 1
        digest = hashlib.sha256(repr((*identity, seen[identity])).encode())
        found.append(
            Mutant(
                key=digest.hexdigest()[:16],
                rule=rule,
                line=line,
                before=source[start:end],
                after=after,
                source=source[:start] + after + source[end:],
            )
        )
    return found


class _Finder(ast.NodeVisitor):
    """Collects edits (start, end, rule, new text) of all expressions that describe hardware."""

    def __init__(self, source: str):
        self._source, self.edits = source, set()
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _place(self, line: int, column: int) -> int:
        """Return the offset of a column, which `ast` counts in bytes."""
        begin, end = self._starts[line - 1], self._starts[line]
        return begin + len(self._source[begin:end].encode()[:column].decode())

    def _text(self, node: ast.expr) -> str:
        """Return the source text of a node."""
        start = self._place(node.lineno, node.col_offset)
        return self._source[start : self._place(node.end_lineno, node.end_col_offset)]

    def _edit(self, node: ast.expr, rule: str, after: str):
        """Record an edit: replace the source text of a node by `after`, under a rule's name."""
        start = self._place(node.lineno, node.col_offset)
        end = self._place(node.end_lineno, node.end_col_offset)
        self.edits.add((start, end, rule, after))

    # What makes no hardware.

    def visit_Import(self, node):
        """Skip the node."""
        pass

    visit_ImportFrom = visit_Raise = visit_Assert = visit_JoinedStr = visit_Import

    def visit_keyword(self, node):
        """Visit the value of a keyword argument that affects the hardware."""
        if node.arg not in _SILENT:
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        """Visit the body of a function, but not its signature."""
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node):
        """Visit the value of an annotated assignment, but not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    # Operators and constants.

    def visit_BinOp(self, node):
        """Replace an operator by another one, and drop either side of `&` and `|`."""
        left, right = self._text(node.left), self._text(node.right)
        swapped = _OPERATORS.get(type(node.op))
        if swapped:
            tree = ast.BinOp(left=node.left, op=swapped(), right=node.right)
            self._edit(node, "operator", f"({ast.unparse(tree)})")
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            self._edit(node, "dropped condition", f"({left})")
            self._edit(node, "dropped condition", f"({right})")
        self.generic_visit(node)

    def visit_Compare(self, node):
        """Replace a comparison by another one."""
        swapped = _COMPARISONS.get(type(node.ops[0]))
        if swapped and len(node.ops) == 1:
            tree = ast.Compare(left=node.left, ops=[swapped()], comparators=node.comparators)
            self._edit(node, "comparison", f"({ast.unparse(tree)})")
        self.generic_visit(node)

    def visit_Constant(self, node):
        """Change an integer by one in both directions; it does not become negative."""
        if type(node.value) is int:
            self._edit(node, "constant", str(node.value + 1))
            if node.value > 0:
                self._edit(node, "constant", str(node.value - 1))

    def visit_UnaryOp(self, node):
        """Drop a negation."""
        if isinstance(node.op, ast.Invert | ast.Not):
            self._edit(node, "negation", f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Slice(self, node):
        """Change each bound of a slice that is not constant by one."""
        for bound, change in ((node.lower, "+ 1"), (node.upper, "- 1")):
            if bound is not None and not isinstance(bound, ast.Constant):
                self._edit(bound, "off by one", f"({self._text(bound)}) {change}")
        self.generic_visit(node)

    def visit_IfExp(self, node):
        """Swap the branches of a conditional expression."""
        body, other = self._text(node.orelse), self._text(node.body)
        self._edit(node, "swapped branches", f"({body} if {self._text(node.test)} else {other})")
        self.generic_visit(node)

    # Amaranth.

    def visit_Call(self, node):
        """Change a call of Amaranth: its condition, branches, reduction, or the end of a range."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in ("If", "Elif") and node.args:
            condition = self._text(node.args[0])
            self._edit(node.args[0], "swapped branches", f"({condition}) == 0")
            self._edit(node.args[0], "dropped condition", "1")
        if name == "Elif":
            self._edit(node.func, "dropped condition", self._text(node.func)[:-4] + "If")
        if name == "Mux" and len(node.args) == 3:
            which, yes, no = (self._text(each) for each in node.args)
            self._edit(node, "swapped branches", f"Mux({which}, {no}, {yes})")
        if name in _REDUCTIONS and not node.args:
            whole = self._text(node.func)
            self._edit(node.func, "operator", whole[: -len(name)] + _REDUCTIONS[name])
        if name == "range" and not isinstance(node.args[-1], ast.Constant):
            stop = self._text(node.args[-1])
            self._edit(node.args[-1], "off by one", f"({stop}) - 1")
        self.generic_visit(node)
        if name in ("In", "Out") and isinstance(node.args[0], ast.Constant):
            # A wider port is the same: nothing drives or reads what it has more.
            start = self._place(node.args[0].lineno, node.args[0].col_offset)
            wider = str(node.args[0].value + 1)
            self.edits -= {edit for edit in self.edits if (edit[0], edit[3]) == (start, wider)}

    def visit_AugAssign(self, node):
        """Drop assignments to a domain, such as ``m.d.sync +=``."""
        if self._text(node.target).startswith("m.d."):
            if isinstance(node.value, ast.List):
                for each in node.value.elts:
                    self._edit(each, "dropped assignment", "*()")
            else:
                self._edit(node.value, "dropped assignment", "[]")
        self.generic_visit(node)
