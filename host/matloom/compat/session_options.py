"""ONNX Runtime's session options; those that have no effect here may cause a warning."""

import enum
import warnings
from dataclasses import dataclass, field
from typing import Any

from matloom.errors import HintedWarning, UserError


class CompatWarning(HintedWarning):
    """Warning about an argument that Matloom accepts but ignores."""


def warn_ignored(message: str, hint: str = "") -> None:
    """Warn that an argument is ignored; the warning names the line in the user's script."""
    # Skips a constructor or method of this package, so that the warning names the script's line.
    warnings.warn(CompatWarning(message, hint), stacklevel=4)


class GraphOptimizationLevel(enum.IntEnum):
    """Levels of ONNX Runtime's graph optimisation."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Order in which ONNX Runtime runs operators."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass(slots=True)
class RunOptions:
    """Options of one run, all without effect."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    training_mode: bool = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Ignore an entry."""


@dataclass(slots=True)
class SessionOptions:
    """Options of a session, with ONNX Runtime's names and defaults.

    Sizes of dimensions (`add_free_dimension_override_by_name`) take effect. Threads, memory and
    logging have no effect; other options that would change results or write files cause a warning
    when a session is made.
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
    execution_order: Any = 0
    graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    #: Sizes of named dimensions, by name.
    dims: dict[str, int] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Set the size of a named dimension."""
        self.dims[dim_name] = dim_value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Store an entry, without effect."""
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry; raise KeyError if it was not added."""
        return self.entries[key]

    def register_custom_ops_library(self, path: str) -> None:
        """Raise `UserError`: libraries of operators for ONNX Runtime cannot be used here."""
        raise UserError(
            f"{path!r}: a library of ONNX Runtime's operators cannot be used here",
            hint="register the operators with matloom.register_operator (docs/own-operators.md)",
        )


def warn_about_options(options: Any) -> None:
    """Warn about options that would change results or write files."""
    level = getattr(options, "graph_optimization_level", None)
    name = getattr(level, "name", "ORT_ENABLE_ALL")
    if name != "ORT_ENABLE_ALL":
        warn_ignored(
            f"graph_optimization_level {name} is ignored: results are those of "
            "ORT_ENABLE_ALL, which may differ by a step of the quantisation"
        )
    if getattr(options, "enable_profiling", False):
        warn_ignored(
            "enable_profiling is ignored: no profile is written",
            "read session.report(), or run: matloom profile NET",
        )
    if getattr(options, "optimized_model_filepath", ""):
        warn_ignored("optimized_model_filepath is ignored: no optimised model is written")
