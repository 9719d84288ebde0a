"""Report of a quantisation as an HTML page."""

from collections.abc import Iterator
from dataclasses import asdict

from matloom.pages import Column, Markup, Page, PageSection, figures, join, table, tag
from matloom.quantiser.chart import front_chart
from matloom.quantiser.measure import Closeness, Share
from matloom.quantiser.report import QuantisationReport

#: Number of decibels below the median from which a layer is marked.
_NOISY_DECIBELS = 6.0


def page_of(report: QuantisationReport) -> Page:
    """Return the page of a report, which needs no network access."""
    sections = [
        PageSection(
            name="outputs",
            title="Outputs",
            lead="The quantised network compared with the float network it was made from.",
            content=join(*(_output_figures(output) for output in report.outputs)),
        ),
        PageSection(
            name="layers",
            title="Layers",
            lead="Errors of all operators up to each one, over the calibration samples. "
            "Layers that are much noisier than the others are marked.",
            content=_layers_table(report),
        ),
        *_losses_section(report),
        *_levels_section(report),
        *_search_section(report),
        *_compression_section(report),
        PageSection(name="choices", title="Choices", content=_options_table(report)),
    ]
    return Page(title=f"{report.network}, quantised", sections=tuple(sections))


def _output_figures(output: Closeness) -> Markup:
    """Return the figures of one output: samples, agreement, accuracy, SQNR."""
    items = [("samples", f"{output.samples:,}", "calibrated on" if output.calibrated else "unseen")]
    for label, share in (
        ("agreement", output.agreement),
        ("accuracy", output.accuracy),
        ("accuracy of floats", output.accuracy_float),
    ):
        if share is not None:
            items.append((label, f"{100 * share.value:.2f} %", _interval_text(share)))
    if output.sqnr_db is not None:
        items.append(("SQNR", f"{output.sqnr_db:.1f} dB", ""))
    if output.mcnemar is not None:
        items.append(("McNemar", f"p = {output.mcnemar:.2f}", ""))
    return join(tag("h3", output.output), figures(items))


def _interval_text(share: Share) -> str:
    """Return a confidence interval in percent, as text."""
    return f"95 %: {100 * share.low:.1f} to {100 * share.high:.1f}"


def _layers_table(report: QuantisationReport) -> Markup:
    """Return the table of layers."""
    columns = (
        "layer",
        "operator",
        "type",
        Column(title="SQNR, dB", numeric=True, hint="signal-to-noise ratio"),
        Column(title="low", numeric=True, wide=True, hint="least number that is represented"),
        Column(title="high", numeric=True, wide=True, hint="largest number that is represented"),
        Column(title="saturated", numeric=True, hint="share of values beyond low and high"),
        Column(title="cycles", numeric=True, hint="predicted"),
    )
    rows = [layer.cells() for layer in report.layers]
    return table(columns, rows, caption="layers", sortable=True, kinds=_row_classes(report))


def _row_classes(report: QuantisationReport) -> Iterator[str]:
    """Yield the CSS class of each layer's row: ``"warn"`` if it is much noisier than most."""
    ratios = sorted(layer.sqnr_db for layer in report.layers if layer.sqnr_db is not None)
    median = ratios[len(ratios) // 2] if ratios else 0.0
    for layer in report.layers:
        noisy = layer.sqnr_db is not None and layer.sqnr_db < median - _NOISY_DECIBELS
        yield "warn" if noisy else ""


def _losses_section(report: QuantisationReport) -> list[PageSection]:
    """Return a list with the section on the loss of each layer; empty if not requested."""
    known = [(layer.lost, layer) for layer in report.layers if layer.lost is not None]
    if not known:
        return []
    columns = (
        "layer",
        "operator",
        Column(title="lost", numeric=True, hint="percent of the results"),
    )
    rows = [(layer.name.split(";")[0], layer.operator, f"{lost:.2f}") for lost, layer in known]
    section = PageSection(
        name="losses",
        title="Losses",
        lead=f"{sum(lost for lost, _layer in known):.2f} % of the results are expected to change: "
        "each layer's share, with earlier layers in integers and later ones in floats.",
        content=table(columns, rows, caption="losses", sortable=True),
    )
    return [section]


def _levels_section(report: QuantisationReport) -> list[PageSection]:
    """Return a list with the section on levels; empty if none was requested."""
    if not report.levels_up_to_requested:
        return []
    columns = (
        "level",
        Column(title="cycles", numeric=True, hint="predicted"),
        Column(title="4-bit layers", numeric=True),
        Column(title="agreement, %", numeric=True),
        Column(title="accuracy, %", numeric=True),
    )
    rows = [
        (
            level.name,
            f"{level.cycles:,}",
            f"{len(level.layers)}",
            _share_text(output.agreement),
            _share_text(output.accuracy),
        )
        for level in report.levels_up_to_requested
        for output in level.outputs
    ]
    section = PageSection(
        name="levels",
        title="Levels",
        lead="Each level, measured on the same samples as the result.",
        content=table(columns, rows, caption="levels"),
    )
    return [section]


def _share_text(share: Share | None) -> str:
    """Return a share and its confidence interval in percent as text; empty without one."""
    if share is None:
        return ""
    return f"{100 * share.value:.2f} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def _search_section(report: QuantisationReport) -> list[PageSection]:
    """Return a list with the section on the search; empty if there was none."""
    search = report.search
    if search is None:
        return []
    columns = (
        "layer",
        Column(title="cycles saved", numeric=True, hint="predicted, with 4-bit weights"),
        Column(title="noise added", numeric=True, hint="share of the outputs' power"),
    )
    rows = [
        (each.name.split(";")[0], f"{each.cycles:,}", f"{each.noise:.4%}")
        for each in search.sensitivities
    ]
    sensitivities = table(columns, rows, caption="each layer alone", sortable=True)
    section = PageSection(
        name="mixtures",
        title="4-bit weights",
        lead="Mixtures of layers with 8-bit and 4-bit weights: the chosen one is filled.",
        content=join(
            front_chart(
                search.points,
                [f"{len(point.layers)} layers of 4 bits" for point in search.points],
                search.chosen,
            ),
            sensitivities,
        ),
    )
    return [section]


def _compression_section(report: QuantisationReport) -> list[PageSection]:
    """Return a list with the section on layers in other forms; empty if not requested."""
    found = report.compression
    if found is None:
        return []
    columns = (
        "layer",
        "form",
        Column(title="rank", numeric=True, hint="channels between two layers, or that remain"),
        Column(title="lost, %", numeric=True, hint="variance of the layer's outputs, by itself"),
        Column(title="cycles saved", numeric=True, hint="predicted, by itself"),
    )
    rows = [
        (each.layer, each.form, f"{each.rank}", f"{100 * each.error:.2f}", f"{each.cycles:,}")
        for each in found.chosen.changes
    ]
    summaries = [f"{len(point.changes)} layers in another form" for point in found.trials]
    section = PageSection(
        name="forms",
        title="Layers in other forms",
        lead=f"Networks of 8-bit weights for the goal {found.goal.kind}={found.goal.value:g}: the "
        "chosen one is filled, and the table lists its layers.",
        content=join(
            front_chart(found.trials, summaries, found.chosen),
            table(columns, rows, caption="layers in other forms", sortable=True),
        ),
    )
    return [section]


def _options_table(report: QuantisationReport) -> Markup:
    """Return the table of options, and of the sizes that they led to."""
    rows = [(name.replace("_", " "), str(value)) for name, value in asdict(report.options).items()]
    rows += [
        ("calibration samples", f"{len(report.calibrated):,}"),
        ("bytes", f"{report.bytes_after:,} of {report.bytes_before:,}"),
    ]
    if report.cycles is not None:
        rows.append(("cycles", f"{report.cycles:,} predicted for {report.config}"))
    return table(("choice", "value"), rows)
