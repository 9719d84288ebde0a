"""The benchmark: measures cycles with the chip's counters against targets, and keeps a report."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from matloom import frontend
from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.errors import UserError, reason
from matloom.ir.graph import Graph
from matloom.program import Program
from matloom.runtime import load
from matloom.terminal.tables import NameTable

#: Relative increase over the committed report's cycles that fails a check.
_TOLERANCE = 0.02

#: Relative error of a prediction that fails a check.
_PREDICTION_TOLERANCE = 0.05

#: Reasons why predictions may be less accurate, by configuration and workload; reports repeat them.
EXCEPTIONS: dict[tuple[str, str], str] = {}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Workload to measure: a network of the collection or of the demo, or a matrix product.

    Members
    -------
    model:
        Path in the collection; the demo's network if this and `product` are None.
    product:
        Rows, inner size and columns of a matrix product.
    mode:
        Number format of the products, added to configurations that lack it.
    calls:
        Number of calls in one session. The last is measured; it may find weights on chip.
    target:
        Target utilisation of the array's peak rate in `mode`; None for no target. In a matrix
        product, padding to the array's size counts as work.
    peers:
        Published figures of other designs for the same network, by name. They are shown for
        configuration `reference`.
    """

    name: str
    model: str | None = None
    product: tuple[int, int, int] | None = None
    mode: str = "i8xi8"
    calls: int = 1
    target: float | None = None
    peers: tuple[tuple[str, str], ...] = ()

    def target_cycles(self, macs: int, config: Config) -> int | None:
        """Return the cycles at which an engine reaches the target utilisation; None for no target.

        `macs` counts the network's multiply-accumulates; a matrix product ignores it.
        """
        if self.target is None:
            return None
        work = macs
        if self.product is not None:
            rows, inner, columns = self.product
            work = rows * _round_up(inner, config.rows) * _round_up(columns, config.columns)
        return round(work / (config.macs_per_cycle(self.mode) * self.target))

    def config(self, config: Config) -> Config:
        """Return the configuration to measure, with the mode added if necessary."""
        if self.mode in config.mac_modes:
            return config
        return replace(config, mac_modes=(*config.mac_modes, self.mode))


def _round_up(size: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least `size`."""
    return -(-size // unit) * unit


def _network_workload(name: str, model: str, macs: int, cycles: int, **more: Any) -> Workload:
    """Return the workload of an MLPerf Tiny network; `more` are further members of it.

    `model` is its path there, and `macs` its multiply-accumulates; the target utilisation is that
    of `cycles` on 256 multipliers. `more` are other fields of the workload.
    """
    target = macs / 256 / cycles
    return Workload(name=name, model=f"mlperf_tiny/{model}.tflite", target=target, **more)


def _product_workload(
    rows: int, inner: int, columns: int, target: float, mode: str = "i8xi8"
) -> Workload:
    """Return the workload of a matrix product (`rows`, `inner`) x (`inner`, `columns`)."""
    cube = rows == inner == columns and rows % 16 == 0
    name = f"matmul {rows}" if cube else f"matmul {rows}x{inner}x{columns}"
    if mode != "i8xi8":
        return Workload(
            name=f"{name} {mode}", product=(rows, inner, columns), target=target, mode=mode
        )
    others = (("RedMulE", "99.4 %"), ("OpenGeMM", "82-99 %"))
    return Workload(name=name, product=(rows, inner, columns), target=target, peers=others)


#: Targets are the project's goals for 16x16, a 64-bit bus and 32 cycles of latency. Peers: MLPerf
#: Tiny, closed division, and fpgaConvNet, with the same int8 networks.
CASES = (
    Workload(name="digits"),
    _network_workload(
        "ic",
        "pretrainedResnet_quant",
        12_501_632,
        52_500,
        peers=(
            ("GAP9, 370 MHz", "616 us"),
            ("NDP120", "5.12 ms"),
            ("Cortex-M7, 280 MHz", "40.8 ms"),
            ("fpgaConvNet, ZedBoard", "411 us"),
        ),
    ),
    _network_workload(
        "kws",
        "kws_ref_model",
        2_656_768,
        14_300,
        peers=(
            ("GAP9, 370 MHz", "476 us"),
            ("NDP120", "1.48 ms"),
            ("Cortex-M7, 280 MHz", "11.3 ms"),
            ("fpgaConvNet, ZedBoard", "324 us"),
        ),
    ),
    _network_workload(
        "vww",
        "vww_96_int8",
        7_489_664,
        44_000,
        peers=(
            ("GAP9, 370 MHz", "1,125 us"),
            ("NDP120", "4.10 ms"),
            ("Cortex-M7, 280 MHz", "23.8 ms"),
            ("fpgaConvNet, ZedBoard", "9.49 ms"),
            ("ANPU, 200 MHz", "373 us"),
        ),
    ),
    _network_workload(
        "ad",
        "ad01_int8",
        264_192,
        35_500,
        peers=(("GAP9, 370 MHz", "176 us"), ("Cortex-M7, 280 MHz", "1.08 ms")),
    ),
    _network_workload("ad, resident", "ad01_int8", 264_192, 5_500, calls=2),
    _product_workload(128, 128, 128, 0.90),
    _product_workload(256, 256, 256, 0.97),
    _product_workload(256, 256, 256, 0.9225, "i8xi4"),
    _product_workload(512, 512, 512, 0.99),
    _product_workload(100, 100, 100, 0.90),
    _product_workload(250, 130, 70, 0.90),
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """Measurement of a workload; times are in seconds on the machine that ran it.

    Members
    -------
    prediction_error:
        Predicted cycles divided by measured cycles, minus one.
    exception:
        Reason why the prediction may be inaccurate (`EXCEPTIONS`); None if it must be accurate.
    exact:
        Whether the chip and the functional model agree bit for bit.
    counters:
        Counters of the chip, by name.
    bytes_read, bytes_written:
        Bytes transferred on the bus, in whole beats, including the commands.
    """

    name: str
    macs: int
    cycles: int
    target: int | None
    utilisation: float
    predicted_cycles: int
    prediction_error: float
    exception: str | None
    exact: bool
    counters: dict[str, int]
    bytes_read: int
    bytes_written: int
    peers: dict[str, str]
    simulation_seconds: float
    simulated_kilocycles_per_second: float
    model_seconds: float
    compile_seconds: float

    @property
    def largest_stall(self) -> str:
        """The cause that cost the array the most cycles, with its share of all cycles."""
        causes = {name: self.counters[name] for name, _doc in EXEC_CAUSES[1:]}
        cause = max(causes, key=lambda name: causes[name])
        return f"{cause.removeprefix('exec_')} {causes[cause] / self.cycles:.1%}"


def collection(name: str = "models") -> Path | None:
    """Return the folder of a collection: `models`, `wild` or `untuned`; None if it is absent.

    The folder is named by `MATLOOM_MODELS` (`MATLOOM_WILD`, `MATLOOM_UNTUNED`), or is
    ``shared/<name>`` next to the repository.
    """
    chosen = os.environ.get(f"MATLOOM_{name.upper()}")
    usual = Path(__file__).resolve().parents[4] / "shared" / name
    folder = Path(chosen) if chosen else usual
    return folder if (folder / "models").is_dir() else None


def graph_of(workload: Workload) -> Graph | None:
    """Return the network of a workload; None if the model collection is absent."""
    if workload.product is not None:
        return product_graph(*workload.product, mode=workload.mode)
    if workload.model is None:
        return frontend.load(NETWORK)
    folder = collection()
    return None if folder is None else frontend.load(folder / "models" / workload.model)


def _random_inputs(program: Program) -> dict[str, np.ndarray]:
    """Return random int8 inputs of a program, by name."""
    noise = np.random.default_rng(0)
    return {info.name: noise.integers(-128, 128, info.shape, np.int8) for info in program.inputs}


def _measure(
    workload: Workload, graph: Graph, config: Config, config_name: str, memory: Memory
) -> Result:
    """Return the measurement of a workload on the simulated chip, compared with the model."""
    started = time.perf_counter()
    program = compile_network(graph, config, CompileOptions(memory=memory, tuned=False))
    compiled = time.perf_counter() - started
    inputs = _random_inputs(program)
    with load(program, device="model") as model:
        model.run(inputs)
        started = time.perf_counter()
        expected = model.run(inputs)
        modelled = time.perf_counter() - started
    with load(program, device="rtl") as session:
        for _ in range(workload.calls):
            started = time.perf_counter()
            outputs = session.run(inputs)
            simulated = time.perf_counter() - started
        report = session.report()
    # Targets and figures of peers apply to the reference memory.
    reference = memory == REFERENCE_MEMORY
    return Result(
        name=workload.name,
        macs=report.macs,
        cycles=report.cycles,
        target=workload.target_cycles(report.macs, config) if reference else None,
        utilisation=round(report.utilisation, 4),
        predicted_cycles=report.predicted_cycles,
        prediction_error=round(report.predicted_cycles / report.cycles - 1, 4),
        exception=EXCEPTIONS.get((config_name, workload.name)),
        exact=all(np.array_equal(outputs[name], expected[name]) for name in outputs),
        counters=report.counters,
        bytes_read=report.bytes_read,
        bytes_written=report.bytes_written,
        peers=dict(workload.peers) if reference and config_name == "reference" else {},
        simulation_seconds=round(simulated, 3),
        simulated_kilocycles_per_second=round(report.cycles / simulated / 1000, 1),
        model_seconds=round(modelled, 3),
        compile_seconds=round(compiled, 3),
    )


def run_bench(
    config: Config,
    config_name: str,
    say: Callable[[str], None],
    memory: Memory = REFERENCE_MEMORY,
) -> tuple[list[Result], list[str]]:
    """Measure every workload; return the results, and a sentence for each one left out."""
    results, skipped = [], []
    for case in CASES:
        graph = graph_of(case)
        if graph is None:
            skipped.append(f"{case.name} skipped: the model collection is absent (MATLOOM_MODELS)")
            continue
        say(f"measuring {case.name} at {config_name}")
        results.append(_measure(case, graph, case.config(config), config_name, memory))
    return results, skipped


def table(results: list[Result], config_name: str) -> NameTable:
    """Return the results and targets as a table, which drops columns in a narrow terminal."""
    shown = NameTable(
        f"configuration {config_name}, cycles from the chip's counters",
        spare=("kcycles/s", "MACs", "target"),
        least_width=max(len(item.name) for item in results),
    )
    shown.add_column("network", no_wrap=True)
    for heading in ("MACs", "cycles", "target", "util.", "predicted", "kcycles/s"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("largest stall", no_wrap=True)
    shown.add_column("exact", no_wrap=True)
    for item in results:
        shown.add_row(
            item.name,
            f"{item.macs:,}",
            f"{item.cycles:,}",
            "" if item.target is None else f"{item.target:,}",
            f"{item.utilisation:.3f}",
            f"{item.prediction_error:+.1%}",
            f"{item.simulated_kilocycles_per_second:,.0f}",
            item.largest_stall,
            "yes" if item.exact else "NO",
        )
    return shown


def peer_lines(results: list[Result]) -> list[str]:
    """Return the published figures of other designs for the same networks, one line each."""
    return [
        f"{item.name}: {whose} {figure}" for item in results for whose, figure in item.peers.items()
    ]


def _import_seconds() -> float:
    """Return the seconds that `import matloom` takes in a new interpreter, including its start."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import matloom"], check=True)
    return round(time.perf_counter() - started, 3)


def to_json(results: list[Result], config: Config, config_name: str) -> str:
    """Return the report to keep, as JSON."""
    report = {
        "config": config_name,
        "config_digest": f"{config.digest:08x}",
        "array": [config.rows, config.columns],
        "bus_bytes": config.bus_bytes,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "import_seconds": _import_seconds(),
        "results": [asdict(item) for item in results],
    }
    return json.dumps(report, indent=2) + "\n"


def _defects(result: Result) -> list[str]:
    """Return a sentence for each defect of a single result."""
    problems = []
    if not result.exact:
        problems.append(f"{result.name}: the chip and the model differ")
    causes = sum(result.counters[name] for name, _doc in EXEC_CAUSES)
    if causes != result.cycles:
        problems.append(
            f"{result.name}: the causes must sum to the {result.cycles:,} cycles, not {causes:,}"
        )
    error = result.predicted_cycles / result.cycles - 1
    off = abs(result.predicted_cycles - result.cycles) > _PREDICTION_TOLERANCE * result.cycles
    if off and result.exception is None:
        problems.append(
            f"{result.name}: predicted cycles must be within {_PREDICTION_TOLERANCE:.0%} of "
            f"{result.cycles:,}, not {result.predicted_cycles:,} ({error:+.1%})"
        )
    return problems


def kept_cycles(path: Path) -> dict[str, int]:
    """Return the cycles of each workload in a kept report, by name.

    Raises
    ------
    UserError
        The file cannot be read, or is no report of `matloom bench`.
    """
    try:
        return {item["name"]: item["cycles"] for item in json.loads(path.read_text())["results"]}
    except OSError as error:
        raise UserError(
            f"there is no kept report {path}: {reason(error)}", hint="leave --check out to make one"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{path} must be a report of matloom bench", hint="leave --check out to make one"
        ) from None


def check(results: list[Result], kept: dict[str, int]) -> list[str]:
    """Return a sentence for each defect of a result, and for each with more cycles than `kept`.

    `kept` are cycles by workload (`kept_cycles`); an increase within `_TOLERANCE` is accepted.
    """
    problems = []
    for item in results:
        problems += _defects(item)
        known = kept.get(item.name)
        if known is not None and item.cycles > known * (1 + _TOLERANCE):
            problems.append(
                f"{item.name}: cycles must be at most {known:,} + {_TOLERANCE:.0%}, "
                f"not {item.cycles:,}"
            )
    return problems
