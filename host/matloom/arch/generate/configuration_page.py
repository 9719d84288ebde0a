"""The reference page of the configuration."""

import dataclasses
import inspect

from matloom.arch.config import PRESETS, Config
from matloom.arch.generate.area_costs import area_cost_table
from matloom.arch.generate.pages import NOTICE, table
from matloom.arch.generate.sentences import one_sentence_per_line
from matloom.arch.modes import FLOAT_MODES, MODES, Mode

_CONFIGURATION = """\
A configuration is the name of a preset or a JSON file with any of the fields below; a field that a
file leaves out has
its value in `reference`.
A preset's name may be followed by modes to add and by other values of fields: `--config
small+i8xi4+lanes=8`. If a field is given twice, the last value holds.
A configuration that breaks a [rule](#rules) is refused with a sentence that names it.
"""

_RULES = """\
Numbers in parentheses are those of `reference`.
The rules of `float_rows` apply only if the configuration has a floating-point mode.
"""


def _field_docs() -> dict[str, str]:
    """Return the description of each field of Config, from the Members section of its docstring."""
    section = inspect.cleandoc(Config.__doc__ or "").split("-------\n", 1)[1]
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            names = [name.strip() for name in line[:-1].split(",")]
        else:
            for name in names:
                docs[name] = f"{docs.get(name, '')} {line.strip()}".strip()
    return docs


def _rules() -> list[tuple[str, str]]:
    """Return the pairs of a field and a rule that Config checks, in order.

    They are collected from a default configuration with a floating-point mode.
    """
    rules: list[tuple[str, str]] = []

    class Listener(Config):
        """Configuration that records its rules instead of checking them."""

        def _require(self, name: str, rule: str, good: bool, verb: str = "be") -> None:
            """Record a rule of a field."""
            rules.append((f"`{name}`", f"{verb} {rule}"))

    Listener(mac_modes=("i8xi8", FLOAT_MODES[0]))
    return rules


def _elements_per_column(mode: Mode) -> str:
    """Return the reduction elements per column and cycle in a mode, as Markdown."""
    if mode.is_floating:
        return "`float_rows`"
    return {1: "`rows` / 2", 2: "`rows`", 4: "2 `rows`"}[mode.macs_of_two_cells]


_ELSEWHERE = """\
Difference of single units with the field at 1 and at 0 (`counters`: 2 and 1; `timestamps`: 64 and
0; `windows` = 2: 2
and 1, each synthesised on its own).
"""

#: Rows of a table: a field, a preset, the affected units, and the lookup tables, flip-flops and
#: block RAMs that are saved if the field is 0.
_UNITS = (
    ("`counters`", "nano", "control.counters", 444, 144, 0),
    ("`timestamps`", "nano", "control.timestamps", 414, 235, 1),
    ("`windows`", "nano", "execute", 216, 326, 0),
    ("`maximum`", "nano", "accumulators", 251, 141, 0),
    ("`windows`", "small", "execute", 652, 951, 2),
    ("`windows` = 2", "reference", "four of `array.windows`", "-2,360", 772, 0),
    ("`paired_windows`", "reference", "four of `array.windows`", "5,248", 644, 8),
    ("`checks`", "small", "control.dispatch.bounds", 722, 98, 0),
    ("`maximum`", "small", "accumulators", 499, 277, 0),
    ("`maximum`", "reference", "accumulators", 938, 549, 0),
)


def configuration_page() -> str:
    """Return the text of the configuration page."""
    parts = [
        NOTICE,
        "# Configuration\n",
        _CONFIGURATION,
    ]
    docs = _field_docs()
    names = [item.name for item in dataclasses.fields(Config)]
    rows = [
        (
            f"`{name}`",
            *(_format_value(getattr(preset, name)) for preset in PRESETS.values()),
            docs[name],
        )
        for name in names
    ]
    parts.append(table(("field", *PRESETS, "meaning"), rows))
    parts.append("## What the fields cost\n")
    parts.append(area_cost_table())
    parts.append(_ELSEWHERE)
    parts.append(table(("field", "preset", "units", "tables", "flip-flops", "block RAM"), _UNITS))
    parts.append("## Rules\n")
    parts.append(_RULES)
    parts.append(table(("field", "must"), _rules()))
    parts.append("## Modes\n")
    parts.append("In the order of their numbers.\n")
    rows = [
        (f"`{mode.name}`", mode.activation, mode.weight, mode.sums, _elements_per_column(mode))
        for mode in MODES.values()
    ]
    parts.append(table(("mode", "activations", "weights", "sums", "elements per cycle"), rows))
    parts.append("## Digests of the presets\n")
    digests = [(f"`{name}`", f"`{preset.digest:08x}`") for name, preset in PRESETS.items()]
    parts.append(table(("preset", "digest"), digests))
    return one_sentence_per_line("\n".join(parts))


def _format_value(value: object) -> str:
    """Return a value of a field as text."""
    return ", ".join(value) if isinstance(value, tuple) else f"{value:,}"
