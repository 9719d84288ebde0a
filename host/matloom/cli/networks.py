"""Commands for networks: run, explain, precision."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NETWORK, is_program
from matloom.cli.options import Compilation, RunInputs, Target, compilation, run_inputs, target
from matloom.cli.places import name_in_errors, require_writable, write_file
from matloom.cli.programs import SOURCE, describe_phases, modes_by_layer, program_of
from matloom.cli.say import say, say_text, show
from matloom.errors import UserError, unknown_name_error

if TYPE_CHECKING:
    from matloom.device.driver import Counters
    from matloom.loop import LastIteration
    from matloom.program import Program
    from matloom.report import Report
    from matloom.session import Session

REPORT = click.option(
    "--report", type=click.Path(path_type=Path), help="Write cycles and layers as JSON."
)


@cli.command(
    examples=(
        "matloom run digits --input random --device model",
        "matloom run net.tflite --input in.npz --output out.npz --report report.json",
        "matloom run net.mloom --input in.npz --output out.npz --device model",
        "matloom run digits --input random --outputs all --device fast",
        "matloom run net.mloom --input cat.png",
    ),
)
@NETWORK
@run_inputs()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The .npz file for the outputs; without it, a summary is printed.",
)
@click.option(
    "--outputs",
    "tensors",
    multiple=True,
    metavar="NAME|all",
    help="A tensor inside the network, instead of the outputs; may be given several times; `all` "
    "for every tensor. All devices except fast compile a program that stores them.",
)
@target
@compilation()
@REPORT
def run(
    network: Path,
    inputs: RunInputs,
    output: Path | None,
    tensors: tuple[str, ...],
    target: Target,
    options: Compilation,
    report: Path | None,
) -> None:
    """Run NET on arrays from a file, or on random ones.

    The arrays of an .npz are named like the inputs of NET, which `matloom explain` lists.
    """
    from matloom.tools.arrays import write_arrays
    from matloom.tools.interface import array_line

    require_writable("--output", output)
    ran = run_once(network, inputs, target, options, report, tensors)
    outputs, made = ran.outputs, ran.report
    if output is None:
        for name, array in outputs.items():
            say(array_line(name, array))
    else:
        with name_in_errors(output), output.open("wb") as stream:
            write_arrays(stream, outputs)
        say(f"wrote {output}")
    say(f"{made.cycles:,} cycles ({made.cycles_source}), utilisation {made.utilisation:.3f}")
    if made.ran_on not in ("", made.memory):
        say(f"predicted for memory {made.memory}, ran on {made.ran_on}")
    if made.computed_by == "kernels":
        show(line.strip() for line in made.provenance())


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of `run_once`: outputs, cost, program and counters.

    Members
    -------
    outputs:
        Outputs, or the tensors asked for, by name.
    report:
        Cost of the run, a `matloom.Report`.
    program:
        The program that was run.
    counted:
        Counters of each engine step.
    iterations:
        The last iteration of each loop, by the name of its operator.
    """

    outputs: dict[str, Any]
    report: "Report"
    program: "Program"
    counted: tuple["Counters", ...]
    iterations: dict[str, "LastIteration"]


def run_once(
    network: Path,
    source: RunInputs,
    target: Target,
    options: Compilation,
    report: Path | None,
    tensors: tuple[str, ...] = (),
) -> RunResult:
    """Run a network once, after checking the options, and write its report.

    `source` has the inputs; `report` is the path of the report, and `tensors` the names of the
    tensors to return instead of the outputs.
    """
    from matloom.pre import prepare_inputs
    from matloom.program.samples import require_inputs
    from matloom.runtime import load

    for option, path in (("--report", report), ("--waves", target.waves)):
        require_writable(option, path)
    # Checked before anything is compiled or built.
    device_options = _device_options(target, options.memory)
    arrays = source.read()
    program = program_of(network, _options_for_device(network, options, target.device))
    inputs = source.by_name(arrays, program)
    # Checked before the device is opened, which may build a simulator for minutes.
    require_inputs(program, prepare_inputs(program, inputs))
    with load(program, device=target.device, **device_options) as session:
        names = "all" if tensors == ("all",) else tensors or None
        with _simulating(session):
            outputs = session.run(inputs, outputs=names)
        ran = RunResult(
            outputs=outputs,
            report=session.report(),
            program=program,
            counted=session.counted,
            iterations=session.last_iterations,
        )
    if report is not None:
        write_file(report, ran.report.to_json())
    return ran


def _simulating(session: "Session") -> AbstractContextManager[None]:
    """Return a context manager that prints the progress of a run that takes long."""
    from matloom.terminal.progress import progress

    def progress_text() -> str:
        """Return the progress as text: cycles simulated so far, and cycles predicted."""
        cycles = getattr(session.driver.transport, "waited", None)
        expected = session.program.predicted_cycles
        return "" if cycles is None else f"{cycles:,} of about {expected:,} cycles"

    return progress(f"running {session.program.name} on {session.device}", detail=progress_text)


def _options_for_device(network: Path, options: Compilation, device: str) -> Compilation:
    """Return the options with the memory of the board on a serial line, unless they name one."""
    from matloom.device.open import device_memory

    if options.memory is not None or is_program(network) or not device.startswith("uart:"):
        return options
    return replace(options, memory=device_memory(device))


def _device_options(target: Target, memory: Any) -> dict[str, Any]:
    """Return the keyword arguments for opening a device; raise if it lacks a requested option."""
    from matloom.device.open import SIMULATED, require_device
    from matloom.device.waves import Waves

    require_device(target.device)

    for option, value in (("--waves", target.waves), ("--check-bus", target.check_bus)):
        if value and target.device not in SIMULATED:
            raise UserError(
                f"{option} must go with device rtl, not {target.device!r}",
                hint=f"leave {option} out, or use --device rtl",
            )
    options: dict[str, Any] = {}
    if target.waves is not None:
        waves = Waves(path=target.waves, first=target.waves_from, cycles=target.waves_cycles)
        waves.require()
        options["waves"] = waves
    elif target.waves_from or target.waves_cycles:
        raise UserError(
            "--waves-from and --waves-cycles must go with --waves",
            hint="name a file: --waves run.fst",
        )
    if target.check_bus:
        options["check_bus"] = True
    if memory is not None and target.device in SIMULATED:
        options["memory"] = memory
    return options


@cli.command(
    examples=(
        "matloom explain digits",
        "matloom explain net.tflite --config small --memory sdram-16",
        "matloom explain net.mloom",
    ),
)
@NETWORK
@click.option(
    "--candidates",
    is_flag=True,
    help="Also list every schedule tried, with its predicted cycles and why it was dropped.",
)
@compilation()
def explain(network: Path, options: Compilation, candidates: bool) -> None:
    """Show where operators of NET run, why, and what they cost."""
    from matloom.tools.explain import explain as sentences
    from matloom.tools.interface import interface_table

    tried = describe_phases(network, options, "search", "--candidates") if candidates else None
    if options.memory is not None and is_program(network):
        raise UserError(
            f"--memory must go with a network, not the program {str(network)!r}", hint=SOURCE
        )
    program = program_of(network, options)
    show((interface_table(program), "", *sentences(program)))
    if tried is not None:
        say_text(tried)


@cli.command(
    "precision",
    examples=(
        "matloom precision net.tflite --config reference+i8xi4 --precision i8xi4",
        "matloom precision net.tflite --config reference+bf16 --precision bf16",
    ),
)
@NETWORK
@click.option("--input", "source", type=click.Path(path_type=Path), help="An .npz, as for run.")
@click.option("--labels", metavar="NAME", help="The array of the .npz that holds labels.")
@click.option("--by-layer", is_flag=True, help="Also measure the change of each layer alone.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the result as JSON.")
@click.option(
    "--precision",
    multiple=True,
    required=True,
    metavar="[LAYER=]MODE",
    help="bf16, fp16 or i8xi4, which --config must support; for all layers if no LAYER is named.",
)
@compilation("config")
def precision_command(
    network: Path,
    source: Path | None,
    labels: str | None,
    by_layer: bool,
    report: Path | None,
    precision: tuple[str, ...],
    options: Compilation,
) -> None:
    """Show what another precision changes in NET.

    Compares the size of the weights and the cycles; with --input also the outputs, and with
    --labels the accuracy.
    """
    from matloom.terminal.progress import progress
    from matloom.tools.arrays import read_arrays
    from matloom.tools.precision import precision_report

    require_writable("--report", report)
    modes = modes_by_layer(network, replace(options, precision=precision))
    assert modes is not None
    if source is None and (labels is not None or by_layer):
        raise UserError(
            "--labels and --by-layer must go with an --input",
            hint="give an .npz of the inputs' arrays: --input in.npz",
        )
    arrays = {} if source is None else read_arrays("--input", source)
    if labels is not None and labels not in arrays:
        raise unknown_name_error(
            UserError, "--labels", labels, arrays, hint="name the array of the .npz that has labels"
        )
    wanted = None if labels is None else arrays.pop(labels)
    with progress(f"comparing precisions of {network.name}"):
        made = precision_report(
            network, modes, arrays or None, wanted, options.config, by_layer=by_layer
        )
    if report is not None:
        write_file(report, made.to_json())
    show((made.table(), *made.sentences()))
