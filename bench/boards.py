"""Measures MLPerf Tiny networks with the memory of each board that has a report, and updates it.

    python bench/boards.py [BOARD ...]

Runs on the simulated chip of the board's engine, with the board's memory as
`matloom.arch.memory` describes it: a first call, and a later one if weights stay on chip. The
engine is generated from the current sources, which may be newer than the routed one. An engine
without a cycle counter gets one; it does not change the cycles.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from matloom.arch.config import load_config
from matloom.arch.memory import BOARD_MEMORIES, load_memory
from matloom.compiler import CompileOptions, compile_network
from matloom.device.driver import Driver
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from matloom.device.model.transport import ModelTransport
from matloom.device.open import memory_size_for, open_device
from matloom.program import Program
from matloom.runtime import Session
from matloom.tools.bench import CASES, graph_of
from matloom_rtl.board.definition import load_board
from support.link_device import LinkDevice
from support.link_line import Line

REPORTS = Path(__file__).resolve().parents[1] / "bitstreams" / "reports"

NETWORKS = ("ic", "kws", "vww", "ad")


def measure(program: Program, driver: Driver) -> dict[str, Any]:
    """Return the counted and predicted cycles of a first call, and of a later one.

    There is a later call only if its weights are still on chip. `link` is the traffic of a call on
    a serial line.
    """
    inputs = noise_for(program)
    found: dict[str, Any] = {}
    with Session(program, driver, "rtl") as session:
        for call in ("first", "later"):
            session.run(inputs)
            report = session.report()
            if call == "first" or report.resident:
                found[call] = {"cycles": report.cycles, "predicted": report.predicted_cycles}
    return found | {"link": link_cost(program)}


def noise_for(program: Program) -> dict[str, Any]:
    """Return random inputs for a program, arrays by name."""
    noise = np.random.default_rng(0)
    return {
        info.name: noise.integers(-128, 128, info.shape).astype(info.dtype)
        for info in program.inputs
    }


def link_cost(program: Program) -> dict[str, int]:
    """Return the bytes and requests that a call needs over a serial link.

    The device at the other end is a functional model in Python, written from docs/link.md; a board
    transfers the same bytes.
    """
    config = program.config
    size = memory_size_for(program.memory_bytes)
    line = Line(LinkDevice(ModelTransport(config, size), config_digest=config.digest))
    with Session(program, Driver(LinkTransport(Link(line)), config), "uart") as session:
        session.run(noise_for(program))
        cost = session.report().link
    assert cost is not None
    return {name: getattr(cost, name) for name in ("sent", "received", "requests")}


def measure_board(name: str, report: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a board with the measurements of its networks added.

    A network that does not fit the board's memory has an entry with the memory that it needs.
    """
    board = load_board(name)
    engine, memory = load_config(board.config), load_memory(name)
    if f"{engine.digest:08x}" != report["config_digest"]:
        raise SystemExit(f"{name} must have been routed with {board.config} as it is now")
    config = replace(engine, counters=max(1, engine.counters))
    driver = open_device("rtl", config, memory_bytes=memory_size_for(1 << 22), memory=memory)
    networks: dict[str, Any] = {}
    for case in CASES:
        if case.name not in NETWORKS:
            continue
        graph = graph_of(case)
        if graph is None:
            raise SystemExit("the model collection must be there: set MATLOOM_MODELS")
        options = CompileOptions(memory=memory, tuned=False)
        program = compile_network(graph, config, options, check="none")
        needed = program.memory_bytes
        if needed > board.memory.bytes:
            networks[case.name] = {"needs_bytes": needed}
        else:
            networks[case.name] = measure(program, driver)
        print(name, case.name, networks[case.name], flush=True)
    driver.close()
    return report | {"memory_model": memory.name, "networks": networks}


def main() -> None:
    """Measure the boards that are named, or all that have a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("boards", nargs="*", metavar="BOARD")
    reported = [name for name in BOARD_MEMORIES if (REPORTS / f"{name}.json").is_file()]
    chosen = parser.parse_args().boards
    for name in chosen:
        if name not in reported:
            parser.error(f"BOARD must be one of {', '.join(reported)}, not {name!r}")
    for name in chosen or reported:
        path = REPORTS / f"{name}.json"
        report = measure_board(name, json.loads(path.read_text()))
        path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
