"""Lists and tables of a profile's page: advice, operators, bus, comparison."""

from matloom.ir.graph import short_name
from matloom.pages import (
    Column,
    Content,
    Markup,
    badge,
    code,
    details,
    join,
    legend,
    stacked_bar,
    table,
    tag,
)
from matloom.profile.advice import Advice
from matloom.profile.causes import CAUSES
from matloom.profile.comparison import ProfileComparison
from matloom.profile.profile import OperatorProfile, Profile

#: Index of each cause's colour on the page.
CAUSE_COLOURS = {
    **{"stream": 1, "weights": 6, "constants": 4, "input": 2},
    **{"post": 3, "store": 5, "command": 8, "bank": 7},
}
CAUSE_TITLES = {cause.name: cause.title for cause in CAUSES}

#: Text and kind of the badge for each requirement of a change.
_NEEDS = {
    "nothing": ("same engine", "good"),
    "memory": ("other memory", "warn"),
    "engine": ("other engine", "dim"),
}

#: Number of lines of advice that are not folded.
_UNFOLDED_LINES = 5


def causes_legend(causes: dict[str, int]) -> Markup:
    """Return a legend of the causes' colours, with the share of each cause."""
    total = max(1, sum(causes.values()))
    return legend(
        (f"{CAUSE_TITLES[name]} {count / total:.1%}", CAUSE_COLOURS[name])
        for name, count in causes.items()
    )


def advice_list(lines: tuple[Advice, ...], untried: tuple[str, ...]) -> Markup:
    """Return a list of the advice, folded after the first few lines, and of untried changes."""
    rest = lines[_UNFOLDED_LINES:]
    more = tag("ol", map(_advice_item, rest), class_="advice", start=_UNFOLDED_LINES + 1)
    none = "No single change that was tried saves a hundredth of the cycles."
    shown = (
        tag("ol", map(_advice_item, lines[:_UNFOLDED_LINES]), class_="advice")
        if lines
        else tag("p", none)
    )
    return join(
        shown,
        details(f"{len(rest)} more", more) if rest else None,
        details(f"{len(untried)} not tried", _untried_list(untried)) if untried else None,
    )


def _untried_list(titles: tuple[str, ...]) -> Markup:
    """Return a list of changes whose gain is predicted only with --thorough."""
    why = "The network must be compiled again for each of these, which "
    return join(
        tag("p", why, tag("code", "--thorough"), " does."),
        tag("ul", (tag("li", title) for title in titles)),
    )


def _advice_item(line: Advice) -> Markup:
    """Return a line of advice as a list item, with a bar of the cycles left and saved."""
    text, kind = _NEEDS[line.needs]
    how = code(line.how) if line.how.startswith("--") else line.how
    return tag(
        "li",
        tag("div", tag("b", line.title), " ", badge(text, kind), class_="what"),
        tag("div", tag("b", f"{-line.gain:+.0%}"), f" {line.before:,} to {line.after:,} cycles",
            class_="gain"),
        stacked_bar([("left", line.after, 1), ("saved", line.before - line.after, 10)], line.before,
                    label=f"saves {line.gain:.0%}"),
        tag("p", how, f" ({line.method})", class_="note"),
    )  # fmt: skip


def operator_table(profile: Profile) -> Markup:
    """Return a table with a row for each operator, in which a bar shows its cycles by cause."""
    columns = (
        Column(title="operator"),
        Column(title="cycles", numeric=True),
        Column(title="what they go to"),
        Column(title="share", numeric=True, wide=True),
        Column(title="MACs", numeric=True, wide=True),
        Column(title="per cycle", numeric=True, wide=True, hint="multiply-accumulates per cycle"),
        Column(title="of the array", numeric=True, wide=True),
        Column(title="bytes", numeric=True, wide=True, hint="moved over the bus, both ways"),
        Column(title="where", wide=True),
    )
    total = max(1, profile.report.cycles)
    most = max((each.cycles for each in profile.operators), default=1) or 1
    rows = [_operator_row(each, total, most) for each in profile.operators]
    kinds = ["" if each.where == "engine" else "dim" for each in profile.operators]
    made = table(columns, rows, sortable=True, kinds=kinds, caption="Operators in program order")
    return join(causes_legend(profile.causes), made, _remarks(profile))


def _operator_row(operator: OperatorProfile, total: int, most_cycles: int) -> tuple[Content, ...]:
    """Return the cells of an operator's row; `total` has the cycles of all operators."""
    parts = [
        (CAUSE_TITLES[name], count, CAUSE_COLOURS[name]) for name, count in operator.causes.items()
    ]
    if operator.cycles:
        main = CAUSE_TITLES[operator.main_cause]
        causes: Content = (stacked_bar(parts, most_cycles), tag("span", main, class_="note"))
    elif operator.where != "engine":
        causes = operator.reason or operator.where
    else:
        causes = tag("span", "counted with the operator before", class_="note")
    name = (
        f"{operator.number} {operator.operator} ",
        tag("span", short_name(operator.name), class_="name"),
    )
    return (
        tag("span", name, data_tip=operator.name),
        f"{operator.cycles:,}" if operator.cycles else "",
        causes,
        f"{operator.cycles / total:.1%}" if operator.cycles else "",
        f"{operator.macs:,}" if operator.macs else "",
        f"{operator.rate:.1f}" if operator.macs and operator.cycles else "",
        f"{operator.utilisation:.0%}" if operator.macs and operator.cycles else "",
        f"{operator.bytes_read + operator.bytes_written:,}",
        f"{operator.where} {operator.mode}".rstrip(),
    )


def _remarks(profile: Profile) -> Markup | None:
    """Return the compiler's remarks on operators that run on the engine; None without remarks."""
    reasons = [
        (f"{each.number} {each.operator}", each.reason)
        for each in profile.operators
        if each.reason and each.where == "engine"
    ]
    made = table(("operator", "remark"), reasons)
    return details("Remarks of the compiler", made) if reasons else None


def bus_tables(profile: Profile) -> Markup:
    """Return a table of the bytes on the bus by kind, and the counts of chip and board, if any."""
    total = max(1, sum(profile.traffic.values()))
    rows = [
        (kind, f"{size:,}", f"{size / total:.0%}", stacked_bar([(kind, size, 4)], total))
        for kind, size in profile.traffic.items()
    ]
    columns = (
        Column(title="what"),
        Column(title="bytes", numeric=True),
        Column(title="share", numeric=True),
        Column(title=""),
    )
    report = profile.report
    counted = None
    if report.cycles_source == "counters":
        beats = (
            f"The chip counted {report.bytes_read:,} bytes read in "
            f"{report.counters['read_bursts']:,} bursts and {report.bytes_written:,} written in "
            f"{report.counters['write_bursts']:,}, in whole beats."
        )
        counted = tag("p", beats)
    line = None if report.link is None else tag("p", f"Line of the board: {report.link}.")
    return join(table(columns, rows), counted, line)


def comparison_table(comparison: ProfileComparison) -> Markup:
    """Return a table with a row for each operator of either profile."""
    columns = (
        Column(title="operator"),
        Column(title="there", numeric=True, hint=comparison.name),
        Column(title="here", numeric=True, hint="this run"),
        Column(title="change", numeric=True),
        Column(title="cycles", numeric=True),
    )
    rows = [
        (
            each.title,
            each.format_cycles(each.before),
            each.format_cycles(each.after),
            each.change,
            each.difference,
        )
        for each in comparison.rows
    ]
    kinds = [each.kind for each in comparison.rows]
    return join(
        tag("p", comparison.sentence),
        table(columns, rows, sortable=True, kinds=kinds, caption="Cycles of each operator"),
    )
