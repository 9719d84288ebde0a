"""The page of a profile: summary, advice, operators, roofline, timeline, scratchpad, bus."""

from collections.abc import Iterator

from matloom.ir.graph import short_name
from matloom.pages import (
    Column,
    Markup,
    Page,
    PageSection,
    badge,
    details,
    figures,
    join,
    legend,
    stacked_bar,
    table,
    tag,
)
from matloom.profile.causes import CAUSES
from matloom.profile.charts import CONTENT_COLOURS, activity, scratchpad
from matloom.profile.comparison import ProfileComparison
from matloom.profile.occupancy import CONTENTS
from matloom.profile.profile import Profile
from matloom.profile.roofline import roofline
from matloom.profile.tables import (
    CAUSE_COLOURS,
    CAUSE_TITLES,
    advice_list,
    bus_tables,
    causes_legend,
    comparison_table,
    operator_table,
)

#: Number of operators named in the summary.
_NAMED_OPERATORS = 3


def to_html(profile: Profile, comparison: ProfileComparison | None = None) -> str:
    """Return the page of a profile as HTML, with a section on `comparison` if it is not None."""
    report = profile.report
    counted = report.cycles_source == "counters"
    source = "counted by the chip" if counted else "predicted"
    return Page(
        title=f"Profile of {report.network}",
        subtitle=(
            badge(f"{report.cycles:,} cycles, {source}", "good" if counted else "dim"),
            f" on {profile.engine}, device {report.device}, memory {profile.program.memory.name}.",
        ),
        sections=tuple(_sections(profile, comparison)),
        foot=tag("p", "timeline.json opens in ui.perfetto.dev; layers.csv and profile.json hold "
                 "the figures; node_data.json colours the network in Model Explorer."),
    ).to_html()  # fmt: skip


def _sections(profile: Profile, comparison: ProfileComparison | None) -> Iterator[PageSection]:
    """Yield the sections of the page in order."""
    yield PageSection(name="summary", title="Summary", content=_summary(profile))
    yield PageSection(
        name="advice",
        title="What would help",
        lead="The largest gain first. Each line is a prediction with that one limit lifted; gains "
        "do not add up.",
        content=advice_list(profile.advice, profile.untried),
    )
    if comparison is not None:
        yield PageSection(
            name="compare",
            title="Comparison",
            lead=f"This run against {comparison.name}.",
            content=comparison_table(comparison),
        )
    yield PageSection(
        name="operators",
        title="Operators",
        lead="Cycles from the completion of the operator before. The bar shows what they go to; "
        "its length is the share of the slowest operator.",
        content=operator_table(profile),
    )
    for number, (name, iteration) in enumerate(profile.iterations.items(), 1):
        yield PageSection(
            name=f"iteration-{number}",
            title=f"An iteration of {short_name(name)}",
            lead="The operators in the body of a loop, as they ran in its last iteration.",
            content=operator_table(iteration),
        )
    if profile.timelines:
        yield from _drawings(profile)


def _drawings(profile: Profile) -> Iterator[PageSection]:
    """Yield the sections with drawings, for a network that runs at least partly on the engine."""
    yield PageSection(
        name="timeline",
        title="Timeline",
        lead="How busy each unit is, and how full the bus. timeline.json has every instruction.",
        content=activity(profile),
    )
    yield PageSection(
        name="roofline",
        title="Roofline",
        lead="Each circle is an operator, its area the cycles. Near the slope the bus is the "
        "limit, near the level line the array; far below both, look at the causes above.",
        content=roofline(profile),
    )
    yield PageSection(
        name="scratchpad",
        title="Scratchpad",
        lead="Bytes that are still to be read, from their write to their last read.",
        content=join(legend(zip(CONTENTS, CONTENT_COLOURS, strict=True)), scratchpad(profile)),
    )
    yield PageSection(name="bus", title="Bus", content=bus_tables(profile))


def _summary(profile: Profile) -> Markup:
    """Return the key figures, the cycles by cause, and the slowest operators."""
    report, causes = profile.report, profile.causes
    total = sum(causes.values())
    slowest = sorted(profile.operators, key=lambda each: -each.cycles)[:_NAMED_OPERATORS]
    rows = figures(
        (
            ("Cycles", f"{report.cycles:,}", f"{report.predicted_cycles:,} predicted"),
            ("Use of the array", f"{report.utilisation:.1%}", "of its multiply-accumulates"),
            ("On the engine", _share_on_engine(profile), "of the multiply-accumulates"),
            ("Bytes on the bus", f"{sum(profile.traffic.values()):,}", "with commands"),
            ("Host steps", str(len(report.host_steps)), "not in the cycles"),
        )
    )
    bar = stacked_bar(
        [(CAUSE_TITLES[name], count, CAUSE_COLOURS[name]) for name, count in causes.items()], total
    )
    names = [
        f"{each.number} {each.operator} ({each.cycles / max(1, total):.0%})" for each in slowest
    ]
    return join(
        rows,
        tag("div", bar, class_="whole"),
        causes_legend(causes),
        tag("p", f"Slowest operators: {', '.join(names)}.") if total else None,
        details("What the causes mean", _meanings_of_causes(profile)),
    )


def _share_on_engine(profile: Profile) -> str:
    """Return the share of multiply-accumulates that run on the engine, as text."""
    program = profile.program
    return f"{program.engine_macs / program.macs:.0%}" if program.macs else "none"


def _meanings_of_causes(profile: Profile) -> Markup:
    """Return a table that explains the causes, and one of the chip's counters if they were read."""
    counted = profile.report.stalls if profile.report.cycles_source == "counters" else {}
    rows = [
        (cause.title, f"{profile.causes.get(cause.name, 0):,}", cause.meaning) for cause in CAUSES
    ]
    made = table(("cause", Column(title="cycles", numeric=True), "meaning"), rows)
    if not counted:
        return made
    stalls = [(name, f"{count:,}") for name, count in counted.items() if count]
    own = table(
        ("counter", Column(title="cycles", numeric=True)),
        stalls,
        caption="Counters of the execute unit, which count all cycles without an instruction of "
        "its own as exec_wait_command",
    )
    return join(made, own)
