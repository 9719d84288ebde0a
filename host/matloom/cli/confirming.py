"""Tasks of `matloom explore --confirm` and `--route`: FPGA tools, run by workers."""

import io
from contextlib import redirect_stdout
from typing import Any


def synthesise_engine(text: str, board: str) -> dict[str, Any]:
    """Synthesise an engine without its board; return its LUTs ("tables") and flip-flops.

    `text` is the engine's configuration, as for --config. If the synthesis fails, the only key of
    the result is "why", with the reason.
    """
    from matloom.arch.config import load_config
    from matloom_rtl.board.definition import load_board
    from matloom_rtl.fpga.devices import DEVICES
    from matloom_rtl.fpga.progress import FlowError
    from matloom_rtl.fpga.size import measure
    from matloom_rtl.generate import generate

    try:
        with redirect_stdout(io.StringIO()):
            total = measure(generate(load_config(text)), DEVICES[load_board(board).device])["total"]
    except FlowError as error:
        return {"why": str(error)}
    return {"tables": round(total["COMB"]), "flip-flops": round(total["FF"])}


def route_board(text: str, board: str, freq: float | None) -> dict[str, Any]:
    """Place and route a board with an engine; return its clock ("mhz") and LUTs ("tables").

    `text` is the engine's configuration, as for --config, and `freq` the clock in MHz. If the board
    cannot be routed, the only key of the result is "why", with the reason.
    """
    from matloom.cli.boards import build_in_cache
    from matloom_rtl.board.definition import load_board
    from matloom_rtl.board.plan import make_plan
    from matloom_rtl.fpga.progress import FlowError

    try:
        with redirect_stdout(io.StringIO()):
            plan = make_plan(load_board(board), text, round(freq * 1e6) if freq else None)
            report = build_in_cache(plan, (plan.board.seed,), first=True).report
    except FlowError as error:
        return {"why": str(error)}
    area = {name: item["used"] for name, item in report["area"].items()}
    return {"mhz": report["fmax_mhz"], "tables": area.get("LUT4", 0)}
