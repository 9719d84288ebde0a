"""Defects of the scheduler made by rule, one at a time, and the checks that notice them.

A rule changes one place of a function: it drops a term, forgets a condition, and so on. Each mutant
runs in a process of its own, which compiles some networks and applies every check to each program
that differs from the right one.
"""

import ast
import copy
import importlib
import inspect
import json
import os
import resource
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode
from matloom.compiler import CheckError, Compiled, CompileOptions, compile_unchecked
from matloom.ir.graph import Graph
from matloom.program import EngineStep, Program, Repeat
from matloom.program.instruction_table import unpack_all
from matloom.program.verify import VerifyError, verify_program
from matloom.selfcheck import check_program
from support.mutant_rules import RULES, Changer

__all__ = [
    "CHECKS",
    "Case",
    "Mutant",
    "Outcome",
    "applied",
    "baseline",
    "mutants",
    "try_out",
]

#: What looks at a program: the proof of meaning, runs on data, the proof that there are no hazards.
CHECKS = ("meaning", "self-check", "hazards")

#: What becomes of operators for which the compiler finds no legal instructions.
_ON_HOST = "operators run on the host"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A defect: the rule, the function and the place in it, and the original line.

    `texts` are whole functions, by module and name, that replace the originals; if it is empty, the
    rule describes the change.
    """

    module: str
    function: str
    rule: str
    place: int
    line: str
    texts: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.module}.{self.function}, {self.rule}: {self.line}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network to compile; a `large` one only if no other program changes."""

    name: str
    graph: Graph
    config: Config
    options: CompileOptions
    large: bool = False

    def compiled(self) -> Compiled:
        """Return its program, unchecked."""
        return compile_unchecked(self.graph, self.config, self.options)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a mutant.

    Members
    -------
    changed:
        Networks whose programs differ from the right ones.
    refused:
        Networks that the compiler refused, or partly left to the host; the first reason.
    caught:
        First message of each check; empty if it noticed nothing.
    difference:
        The difference in the first program that no check noticed.
    """

    changed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    reason: str = ""
    caught: dict[str, str] | None = None
    difference: str = ""

    @property
    def kind(self) -> str:
        """``"caught"``, ``"right"``, ``"refused"`` or ``"unchanged"``."""
        if self.changed:
            return "caught" if any((self.caught or {}).values()) else "right"
        return "refused" if self.refused else "unchanged"


def _function(module: str, function: str) -> tuple[Any, str, Any]:
    """Return the owner of a function, its name there, and the function."""
    owner: Any = importlib.import_module(module)
    *classes, name = function.split(".")
    for each in classes:
        owner = getattr(owner, each)
    found = inspect.getattr_static(owner, name)
    return owner, name, found


def _tree(module: str, function: str) -> tuple[ast.Module, list[str]]:
    _owner, _name, found = _function(module, function)
    plain = getattr(found, "fget", None) or found
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(plain)))
    return ast.parse(text), text.splitlines()


def mutants(module: str, functions: Sequence[str]) -> Iterator[Mutant]:
    """Yield every mutant of some functions of a module, in the order of functions and rules."""
    for function in functions:
        tree, lines = _tree(module, function)
        for rule in RULES:
            changer = Changer(rule, None)
            changer.visit(copy.deepcopy(tree))
            for place, line in enumerate(changer.lines):
                text = lines[line - 1].strip() if line else ""
                yield Mutant(module=module, function=function, rule=rule, place=place, line=text)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Replace a function by its mutant, in all modules that imported it."""
    if mutant.texts:
        wrong = [
            (module, function, ast.parse(textwrap.dedent(text)))
            for module, function, text in mutant.texts
        ]
    else:
        tree, _lines = _tree(mutant.module, mutant.function)
        Changer(mutant.rule, mutant.place).visit(tree)
        wrong = [(mutant.module, mutant.function, tree)]
    with ExitStack() as stack:
        for module, function, changed in wrong:
            stack.enter_context(_replaced(module, function, changed))
        yield


@contextmanager
def _replaced(module: str, function: str, tree: ast.Module) -> Iterator[None]:
    """Replace a function's text."""
    owner, name, right = _function(module, function)
    scope: dict[str, Any] = {}
    code = compile(ast.fix_missing_locations(tree), f"<{module}.{function}>", "exec")
    exec(code, vars(importlib.import_module(module)), scope)
    places = [(owner, name)]
    if inspect.ismodule(owner):
        places += [
            (place, attribute)
            for key, place in list(sys.modules.items())
            if key.startswith("matloom") and place is not owner
            for attribute, value in list(vars(place).items())
            if value is right
        ]
    for place, attribute in places:
        setattr(place, attribute, scope[name])
    try:
        yield
    finally:
        for place, attribute in places:
            setattr(place, attribute, right)


def baseline(cases: Sequence[Case]) -> list[bytes]:
    """Return the right programs; raise if a check fails."""
    found = []
    for case in cases:
        made = case.compiled()
        made.prove()
        check_program(made.program, made.graph, made.numbers, mode="sample")
        verify_program(made.program)
        found.append(made.program.to_bytes())
    return found


def _check_messages(made: Compiled) -> dict[str, str]:
    """Return each check's message for a program; empty if it passes."""
    checks: tuple[Callable[[], Any], ...] = (
        made.prove,
        lambda: check_program(made.program, made.graph, made.numbers, mode="sample"),
        lambda: verify_program(made.program),
    )
    said = {}
    for name, check in zip(CHECKS, checks, strict=True):
        said[name] = ""
        try:
            check()
        except (CheckError, VerifyError) as error:
            said[name] = str(error)
    return said


def _difference(right: Program, other: Program) -> str:
    """Return the difference between a program and the right one, as specific as possible."""
    if [layer.where for layer in right.layers] != [layer.where for layer in other.layers]:
        return _ON_HOST
    first, second = (_instructions(program) for program in (right, other))
    if first == second:
        return "constants that nothing reads"
    for ignored, text in (
        (("wait",), "waits that are not needed, or not weaker than it takes"),
        (("wait", "addr", "dram_offset"), "places on chip or in external memory"),
        (None, "order, times or number of transfers"),
    ):
        if _kept(first, ignored) == _kept(second, ignored):
            return text
    return "tiles"


def _instructions(program: Program) -> list[Instruction]:
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    buffers: list[EngineStep | Repeat] = list(steps)
    buffers += [step.repeat for step in steps if step.repeat is not None]
    return [item for buffer in buffers for item in unpack_all(program.commands(buffer))]


def _kept(instructions: list[Instruction], ignored: tuple[str, ...] | None) -> list[object]:
    """Return instructions without some fields; for None, only the shapes of arithmetic."""
    if ignored is None:
        names = ("width", "height", "oc_blocks", "kernel_rows", "kernel_cols", "blocks")
        return [
            (item.opcode, *(item.values[name] for name in names if name in item.values))
            for item in instructions
            if item.opcode in (Opcode.EXEC, Opcode.POST)
        ]
    return [
        (
            item.opcode,
            *(
                value
                for name, value in item.values.items()
                if not any(part in name for part in ignored)
            ),
        )
        for item in instructions
    ]


def outcome(mutant: Mutant, cases: Sequence[Case], right: Sequence[bytes]) -> Outcome:
    """Return the outcome of a mutant, which stays in this process until it ends."""
    changed: list[str] = []
    refused: list[str] = []
    reason, difference = "", ""
    caught = dict.fromkeys(CHECKS, "")
    with applied(mutant):
        for case, program in zip(cases, right, strict=True):
            if case.large and changed:
                continue
            try:
                made = case.compiled()
                same = made.program.to_bytes() == program
            except Exception as error:
                refused.append(case.name)
                reason = reason or f"{type(error).__name__}: {error}"
                continue
            if same:
                continue
            said = _check_messages(made)
            if not any(said.values()):
                differs = _difference(Program.from_bytes(program), made.program)
                if differs == _ON_HOST:
                    refused.append(case.name)
                    reason = reason or differs
                    continue
                difference = difference or differs
            changed.append(case.name)
            for name, text in said.items():
                caught[name] = caught[name] or text
            if caught["meaning"] and caught["self-check"]:
                break
    return Outcome(
        changed=tuple(changed),
        refused=tuple(refused),
        reason=reason[:200],
        caught=caught,
        difference=difference,
    )


def try_out(
    mutant: Mutant, cases: Sequence[Case], right: Sequence[bytes], seconds: int = 60
) -> Outcome:
    """Return the outcome of a mutant in a process of its own, limited in time and memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        code = 1
        with suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            found = outcome(mutant, cases, right)
            with os.fdopen(writer, "w") as pipe:
                json.dump(asdict(found), pipe)
            code = 0
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        return Outcome(
            refused=tuple(case.name for case in cases), reason="the compiler does not end"
        )
    values = json.loads(text)
    return Outcome(
        **{**values, "changed": tuple(values["changed"]), "refused": tuple(values["refused"])}
    )
