"""Says for each operator of a program where it runs, why, and what it costs."""

from rich.table import Table

from matloom.program import EngineStep, Program

__all__ = ["explain"]


def explain(program: Program) -> list[Table | str]:
    """Return the operators as a table, and sentences on totals and what would help most."""
    table = Table(title=f"{program.name} for configuration {program.config.digest:08x}")
    for heading in ("operator", "output", "where"):
        table.add_column(heading, overflow="fold")
    for heading in ("MACs", "bytes", "cycles (predicted)", "MACs/cycle"):
        table.add_column(heading, justify="right")
    table.add_column("why", overflow="fold")
    for layer in program.layers:
        on_engine = layer.where == "engine"
        rate = layer.macs / layer.predicted_cycles if layer.predicted_cycles else 0.0
        table.add_row(
            layer.operator,
            layer.name,
            layer.where,
            f"{layer.macs:,}",
            f"{layer.tensor_bytes:,}",
            f"{layer.predicted_cycles:,}" if on_engine else "",
            f"{rate:.1f}" if on_engine and layer.macs else "",
            layer.reason,
        )
    return [table, *_totals(program)]


def _totals(program: Program) -> list[str]:
    config = program.config
    cycles = program.predicted_cycles
    engine = [layer for layer in program.layers if layer.where == "engine"]
    steps = sum(isinstance(step, EngineStep) for step in program.steps)
    sizes = ", ".join(f"{region.name} {size:,}" for region, size in program.region_bytes.items())
    peak = config.rows * config.columns
    utilisation = program.engine_macs / (peak * max(cycles, 1))
    share = program.engine_macs / program.macs if program.macs else 0.0
    elsewhere = len(program.layers) - len(engine)
    lines = [
        f"operators: {len(engine)} on the engine in {steps} command buffers, {elsewhere} elsewhere",
        f"{program.macs:,} MACs, {share:.1%} of them on the engine",
        f"{cycles:,} cycles (predicted): utilisation {utilisation:.3f}",
        f"external memory in bytes: {sizes}; the host's constants: {len(program.host_data):,}",
    ]
    lost = [(layer.predicted_cycles - layer.macs / peak, layer) for layer in engine]
    if lost:
        most, layer = max(lost, key=lambda item: item[0])
        where = f"{layer.name} ({layer.operator})"
        lines.append(f"most cycles beyond full use of the array: {where}, {most:,.0f}")
    host = [layer for layer in program.layers if layer.where == "host" and layer.macs]
    if host:
        layer = max(host, key=lambda item: item.macs)
        where = f"{layer.name} ({layer.operator})"
        lines.append(f"most arithmetic on the host: {where}, {layer.macs:,} MACs: {layer.reason}")
    return lines
