"""Simulates the same layers on the same array in SCALE-Sim 3, weight- and output-stationary.

    python bench/scalesim.py    # all, into docs/results/scalesim.json

SCALE-Sim is installed in an environment of its own, build/scalesim, at the first run. It models the
array and ideal memories, without requantisation, dependencies between layers or a bus. It gives
two numbers of cycles: of the array alone, and from the first byte fetched to the last written
("with prefetch"). It counts a depthwise convolution as one convolution per channel.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from matloom.arch.config import PRESETS, Config
from matloom.ir.attributes import Conv2D
from matloom.ir.graph import Graph, Node, Op
from matloom.tools.bench import CASES, Workload, graph_of
from support.reports import parse_with_report, write_report

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / "build" / "scalesim"
REPORT = ROOT / "docs" / "results" / "scalesim.json"
VERSION = "3.0.0"
#: NumPy 2.4 refuses a conversion that this version relies on.
PACKAGES = (f"scalesim=={VERSION}", "numpy<2.4")
DATAFLOWS = ("ws", "os")

#: What runs inside the environment: the package's own command keeps traces of gigabytes.
_RUN = """
import sys
from scalesim.scale_sim import scalesim
config, topology, layout, results = sys.argv[1:]
scalesim(save_disk_space=True, verbose=False, config=config, topology=topology, layout=layout,
         input_type_gemm=False).run_scale(top_path=results)
"""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer in SCALE-Sim's terms; the input includes its padding."""

    height: int
    width: int
    kernel_height: int
    kernel_width: int
    channels: int
    filters: int
    stride: int

    def row(self, name: str) -> str:
        """Return the layer as a line of SCALE-Sim's topology file."""
        fields = (name, *vars(self).values())
        return ", ".join(str(field) for field in fields) + ",\n"


def layer_of(graph: Graph, node: Node) -> tuple[Layer, int] | None:
    """Return a node as a SCALE-Sim layer, and how often that runs (once per depthwise channel).

    Returns None for operators other than convolutions and dense layers.
    """
    if node.op not in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED):
        return None
    source, weights = (graph.tensors[number].shape for number in node.inputs[:2])
    if node.op is Op.FULLY_CONNECTED:
        inner = weights[1]
        rows = graph.tensors[node.inputs[0]].size // inner
        product = Layer(
            height=rows,
            width=inner,
            kernel_height=1,
            kernel_width=inner,
            channels=1,
            filters=weights[0],
            stride=1,
        )
        return product, 1
    attributes = node.attributes
    assert isinstance(attributes, Conv2D)
    assert attributes.dilation == (1, 1)
    assert attributes.stride[0] == attributes.stride[1]
    padding, depthwise = attributes.padding, node.op is Op.DEPTHWISE_CONV_2D
    convolution = Layer(
        height=source[1] + padding.top + padding.bottom,
        width=source[2] + padding.left + padding.right,
        kernel_height=weights[1],
        kernel_width=weights[2],
        channels=1 if depthwise else source[3],
        filters=1 if depthwise else weights[0],
        stride=attributes.stride[0],
    )
    return convolution, weights[3] if depthwise else 1


def environment_python() -> Path:
    """Return the Python of SCALE-Sim's environment, which is created if missing."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / VERSION
    if not stamp.is_file():
        print(f"installing scalesim {VERSION} into {ENVIRONMENT.relative_to(ROOT)}")
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(pip, check=True)
        stamp.touch()
    return python


def scalesim_settings(config: Config, dataflow: str) -> str:
    """Return the text of SCALE-Sim's configuration file: array size, dataflow, and buffer sizes."""
    buffer = config.spad_bytes // 1024 // 2
    return f"""[general]
run_name = run

[architecture_presets]
ArrayHeight = {config.rows}
ArrayWidth = {config.columns}
IfmapSramSzkB = {buffer}
FilterSramSzkB = {buffer}
OfmapSramSzkB = {config.acc_bytes // 1024}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = 10
Dataflow = {dataflow}
ReadRequestBuffer = 64
WriteRequestBuffer = 64

[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2

[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40

[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def simulate(layers: list[Layer], config: Config, dataflow: str) -> list[tuple[int, int]]:
    """Return the cycles of each layer, without and with prefetch."""
    head = "layer, height, width, kernel height, kernel width, channels, filters, stride,\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [layer.row(f"L{number}") for number, layer in enumerate(layers)]
        (folder / "layers.csv").write_text(head + "".join(rows))
        # A layout has to be there and is not used: 1 throughout.
        layout = [f"L{number}, {', '.join(['1'] * 20)},\n" for number in range(len(layers))]
        (folder / "layout.csv").write_text("layout\n" + "".join(layout))
        (folder / "settings.cfg").write_text(scalesim_settings(config, dataflow))
        files = ["settings.cfg", "layers.csv", "layout.csv", "results"]
        command = [str(environment_python()), "-c", _RUN, *files]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        report = folder / "results" / "run" / "COMPUTE_REPORT.csv"
        if result.returncode or not report.is_file():
            sys.exit(
                f"scalesim must end well, not so:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
            )
        with report.open() as lines:
            _head, *found = list(csv.reader(lines))
    return [(round(float(row[2])), round(float(row[1]))) for row in found]


def runnable_cases(largest: int) -> list[Workload]:
    """Return the benchmark's cases that SCALE-Sim can run in a minute."""
    return [
        case
        for case in CASES
        if case.calls == 1 and (case.product is None or max(case.product) <= largest)
    ]


def main() -> None:
    """Simulate each distinct layer once; add up each case."""
    parser = argparse.ArgumentParser(description="The same layers in SCALE-Sim 3.")
    parser.add_argument("--config", choices=PRESETS, default="reference")
    parser.add_argument("--largest", type=int, default=256, help="largest side of a product")
    chosen = parse_with_report(parser, REPORT, ("config", "largest"))
    config = PRESETS[chosen.config]
    work: dict[str, list[tuple[Layer, int]]] = {}
    for case in runnable_cases(chosen.largest):
        graph = graph_of(case)
        if graph is None:
            print(f"{case.name} skipped: the model collection is absent (MATLOOM_MODELS)")
            continue
        found = (layer_of(graph, node) for node in graph.nodes)
        work[case.name] = [item for item in found if item is not None]
    layers = list(dict.fromkeys(layer for items in work.values() for layer, _times in items))
    results: dict[str, dict[str, int]] = {name: {} for name in work}
    for dataflow in DATAFLOWS:
        cycles = dict(zip(layers, simulate(layers, config, dataflow), strict=True))
        for name, items in work.items():
            for index, kind in enumerate(("", "_prefetch")):
                total = sum(cycles[layer][index] * times for layer, times in items)
                results[name][dataflow + kind] = total
    for name, totals in results.items():
        print(name, *(f"{kind} {total:,}" for kind, total in totals.items()), sep="  ")
    report = {"scalesim": VERSION, "config": chosen.config, "results": results}
    write_report(chosen.report, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
