"""The command tune: a faster schedule for a network, kept for later compilations."""

import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NETWORK, is_program
from matloom.cli.options import SEED, Compilation, compilation
from matloom.cli.places import require_writable, write_file
from matloom.cli.programs import SOURCE, modes_by_layer
from matloom.cli.say import say
from matloom.cli.worker_options import Workers, worker_options
from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.tuner.study import Study
    from matloom.tuner.tune import TuningResult


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """Limits of a search, named as on the command line."""

    seconds: float
    trials: int
    measured: int
    seed: int


def _limits(command: Callable[..., Any]) -> Any:
    """Add the options of `_Limits` to a command, which receives them as its argument `limits`."""

    @click.option(
        "--seconds",
        type=click.FloatRange(0, 10**7),
        default=60,
        show_default=True,
        help="Seconds to search; counting on the chip follows.",
    )
    @click.option(
        "--trials",
        type=click.IntRange(1, 10**7),
        default=1000,
        show_default=True,
        help="Maximum number of schedules to predict.",
    )
    @click.option(
        "--measured",
        type=click.IntRange(0, 100),
        default=3,
        show_default=True,
        help="Number of the best to run on the simulated chip; with 0 a prediction decides.",
    )
    @click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the search.")
    @functools.wraps(command)
    def wrapper(seconds: float, trials: int, measured: int, seed: int, **values: Any) -> Any:
        """Call the command with these options as one `_Limits`."""
        limits = _Limits(seconds=seconds, trials=trials, measured=measured, seed=seed)
        return command(limits=limits, **values)

    return wrapper


@cli.command(
    examples=(
        "matloom tune digits --config nano",
        "matloom tune net.tflite --seconds 600 --workers 2",
        "matloom tune net.tflite --memory sdram-16 --measured 0",
        "matloom tune net.tflite --forget",
    ),
)
@NETWORK
@compilation("config", "precision", "memory")
@_limits
@click.option(
    "--forget", is_flag=True, help="Drop the stored schedule; compile with the default again."
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write the result as JSON."
)
@worker_options
def tune(
    network: Path,
    options: Compilation,
    limits: "_Limits",
    forget: bool,
    report: Path | None,
    workers: Workers,
) -> None:
    """Search for a faster schedule of NET, and keep it.

    Predicts the cycles of many more tiles, orders, layouts, fusions and choices of resident weights
    than a compilation does, and then counts the cycles of the best few on the simulated chip. The
    fastest schedule is stored for this network, engine, memory and compiler, and later compilations
    use it. The same command continues where it stopped (docs/tuning.md).
    """
    from matloom.compiler.winners import delete_winner

    if is_program(network):
        raise UserError(f"NET must be a network, not the program {str(network)!r}", hint=SOURCE)
    if report is not None:
        require_writable("--report", report)
    study = _new_study(network, options)
    if forget:
        known = delete_winner(study.digest)
        say(
            "forgotten: compiled with the default schedule again"
            if known
            else "no schedule was stored"
        )
        return
    found = _tune(study, network, limits, workers)
    say(_result_sentence(found))
    if report is not None:
        write_file(report, json.dumps(_result_as_dict(found), indent=1) + "\n")


def _new_study(network: Path, options: Compilation) -> "Study":
    """Return the study of a network: everything that its search for schedules depends on."""
    from matloom import frontend
    from matloom.arch.config import load_config
    from matloom.arch.memory import load_memory
    from matloom.compiler import CompileOptions
    from matloom.tuner.study import new_study, runs_of

    graph, config = frontend.load(network), load_config(options.config)
    compile_options = CompileOptions(memory=load_memory(options.memory))
    study = new_study(graph, config, compile_options, modes_by_layer(network, options))
    if not runs_of(study):
        raise UserError(
            f"{network.name} has nothing that runs on the engine",
            hint="matloom explain says why",
        )
    return study


def _tune(study: "Study", network: Path, limits: "_Limits", workers: Workers) -> "TuningResult":
    """Run the search, and store the fastest schedule."""
    from matloom.compiler.winners import save_winner, winners_folder
    from matloom.terminal.progress import progress
    from matloom.tuner.tune import Budget, tune
    from matloom.workers import reused_executor

    folder = winners_folder()
    folder.mkdir(parents=True, exist_ok=True)
    state = [""]

    def note(text: str) -> None:
        """Store a text for the progress line."""
        state[0] = text

    budget = Budget(
        trials=limits.trials,
        until=time.monotonic() + limits.seconds,
        measured=limits.measured,
    )
    journal = folder / f"{study.digest}.jsonl"
    with (
        progress(f"tuning {network.name}", detail=lambda: state[0]),
        reused_executor(workers.make) as make,
    ):
        found = tune(study, journal, budget, make, seed=limits.seed, note=note)
    if found.winner is not None:
        save_winner(study.digest, found.winner)
    return found


def _result_sentence(result: "TuningResult") -> str:
    """Return the result of a search as a sentence: cycles before and after."""
    how = "counted by the simulated chip" if result.counted else "predicted"
    if result.winner is None and not result.trials:
        return "the time was too short to try a schedule; try more: --seconds"
    if result.winner is None:
        return f"the default is the fastest of {result.trials:,} schedules ({how})"
    gain = 1 - result.after.total / result.before.total
    return (
        f"{gain:.1%} fewer cycles, {how}: first call {result.before.first:,} to "
        f"{result.after.first:,}, later calls {result.before.later:,} to {result.after.later:,}; "
        f"kept for later compilations"
    )


def _result_as_dict(result: "TuningResult") -> dict[str, Any]:
    """Return the result of a search as a dictionary of JSON types: cycles before and after."""
    return {
        "before": {"first": result.before.first, "later": result.before.later},
        "after": {"first": result.after.first, "later": result.after.later},
        "predicted": {"first": result.predicted.first, "later": result.predicted.later},
        "trials": result.trials,
        "counted": result.counted,
        "kept": result.winner is not None,
    }
