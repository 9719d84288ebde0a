"""ONNX Runtime's InferenceSession, on Matloom."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.compat.binding import IOBinding, OrtValue, type_name
from matloom.compat.loading import Network
from matloom.compat.session_options import SessionOptions, warn_about_options, warn_ignored
from matloom.errors import UserError, UserTypeError, unknown_name_error
from matloom.frontend.declaration import DeclaredTensor
from matloom.frontend.readers import Source
from matloom.ir.graph import Array
from matloom.report import Report
from matloom.session import Session

#: Execution providers: the engine, and the host for the operators that the engine cannot run.
PROVIDERS = ("MatloomExecutionProvider", "CPUExecutionProvider")

#: Keywords of ONNX Runtime's constructor that have no meaning here.
_IGNORED_KEYWORDS = ("enable_fallback", "disabled_optimizers", "read_config_from_model")

#: Maximum number of programs kept for different input sizes.
_MAX_PROGRAMS = 8

Provider = str | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class NodeArg:
    """Declaration of an input or output of a network.

    `shape` has the size of each dimension; for an open one, its name, or None if it has none.
    """

    name: str
    type: str
    shape: list[int | str | None]


def _argument(tensor: DeclaredTensor) -> NodeArg:
    """Return the name, type and shape of a tensor as ONNX Runtime gives them."""
    return NodeArg(name=tensor.key, type=type_name(tensor.dtype), shape=list(tensor.shape))


class InferenceSession:
    """ONNX Runtime's InferenceSession for every file that `matloom.load` accepts.

    If the sizes of all inputs are known, the network is compiled by the constructor. Otherwise,
    `run` compiles it, once for each set of input shapes; programs for the last eight are kept.

    Parameters
    ----------
    path_or_bytes:
        Path or bytes of the model file.
    sess_options:
        `SessionOptions` of this package or of ONNX Runtime. Sizes of dimensions only take effect
        from this package's; options that would change results cause warnings.
    providers, provider_options:
        Ignored: the engine runs what it can, and the host the rest. Providers other than these two
        cause a warning.
    options:
        Keywords of `matloom.load`, with its defaults: `device`, `config`, `precision`, `shapes`,
        `dims` and so on. MATLOOM_DEVICE and MATLOOM_CONFIG of the environment replace the defaults
        of the first two.

    Raises
    ------
    ModelError, CompileError, DeviceError
        As `matloom.load` raises them.
    """

    def __init__(
        self,
        path_or_bytes: Source,
        sess_options: Any = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        self._options = SessionOptions() if sess_options is None else sess_options
        warn_about_options(self._options)
        _warn_about_providers(providers)
        for name in _IGNORED_KEYWORDS:
            options.pop(name, None)
        dims = getattr(self._options, "dims", None)
        if dims:
            options["dims"] = {**dims, **(options.get("dims") or {})}
        is_path = isinstance(path_or_bytes, str | os.PathLike)
        self._network = Network(os.fspath(path_or_bytes) if is_path else path_or_bytes, options)
        self._inputs = {tensor.key: tensor for tensor in self._network.declaration.inputs}
        self._outputs = [tensor.key for tensor in self._network.declaration.outputs]
        self._open = [
            name for name, tensor in self._inputs.items() if self._network.sizes(tensor) is None
        ]
        self._sessions: dict[tuple[tuple[int, ...], ...], Session] = {}
        self._last: Session | None = None if self._open else self._session({})

    def get_inputs(self) -> list[NodeArg]:
        """Return name, type and shape of each input, as the file declares them."""
        return [_argument(tensor) for tensor in self._network.declaration.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return name, type and shape of each output, as far as the file declares them."""
        return [_argument(tensor) for tensor in self._network.declaration.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return an empty list, because weights are compiled into the program."""
        return []

    def get_modelmeta(self) -> SimpleNamespace:
        """Return producer, version and other metadata of the file, under ONNX Runtime's names."""
        info = self._network.declaration.info
        return SimpleNamespace(
            producer_name=info.producer,
            graph_name=info.graph,
            domain=info.domain,
            description=info.description,
            graph_description=info.graph_description,
            version=info.version,
            custom_metadata_map=dict(info.metadata),
        )

    def get_session_options(self) -> Any:
        """Return the options that were passed to the constructor, or the default ones."""
        return self._options

    def get_providers(self) -> list[str]:
        """Return the names of the two providers: the engine, and the host for everything else."""
        return list(PROVIDERS)

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Return an empty mapping for each provider."""
        return {name: {} for name in PROVIDERS}

    def set_providers(self, providers: Sequence[Provider], provider_options: Any = None) -> None:
        """Do nothing, except warn about providers other than the engine and the host."""
        _warn_about_providers(providers)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, npt.ArrayLike],
        run_options: Any = None,
    ) -> list[Array]:
        """Run the network on inputs by name; return the named outputs, in the order of the names.

        If `output_names` is None or empty, all outputs are returned, in the file's order. If the
        leading size of an input is fixed and an array has a multiple of it, the network runs sample
        by sample.

        Raises
        ------
        ValueError, TypeError
            A name, shape or type does not match the network.
        """
        missing = [name for name in self._inputs if name not in input_feed]
        if missing:
            raise UserError(
                f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).",
                hint="get_inputs() lists the inputs",
            )
        wanted = list(output_names or self._outputs)
        for name in wanted:
            if name not in self._outputs:
                raise unknown_name_error(UserError, "an output", name, self._outputs)
        feeds = {name: self._array(name, value) for name, value in input_feed.items()}
        self._last = self._session({name: feeds[name].shape for name in self._open})
        found = self._last.run(feeds)
        return [found[name] for name in wanted]

    def io_binding(self) -> IOBinding:
        """Return an empty binding of inputs and outputs, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run the network on the inputs of a binding, and store the outputs in the binding."""
        iobinding.run()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """Run the network as `run` does, with OrtValues instead of arrays."""
        feeds = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(array) for array in self.run(output_names, feeds)]

    @property
    def session(self) -> Session:
        """The `matloom.Session` of the last run, or, before the first run, the one that will run.

        Raises `UserError` if nothing has run and the file leaves input sizes open.
        """
        if self._last is None:
            sizes = ", ".join(self._open)
            raise UserError(
                f"nothing is compiled yet: the file leaves sizes of {sizes} open",
                hint="run it once, or give dims= or shapes=",
            )
        return self._last

    def report(self) -> Report:
        """Return the cost of the last run."""
        return self.session.report()

    def close(self) -> None:
        """Close the devices; the session cannot run afterwards."""
        for session in self._sessions.values():
            session.close()

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _array(self, name: str, value: npt.ArrayLike) -> Array:
        """Return the array for an input; a list or number is converted to the input's type."""
        if name not in self._inputs:
            raise unknown_name_error(UserError, "an input", name, self._inputs)
        if isinstance(value, OrtValue):
            raise UserTypeError(
                f"input {name!r} must be an array, not an OrtValue",
                hint="pass its numpy(), or call run_with_ort_values",
            )
        if isinstance(value, np.ndarray):
            return value
        return np.asarray(value, self._inputs[name].dtype)

    def _session(self, shapes: Mapping[str, tuple[int, ...]]) -> Session:
        """Return the session for the shapes of all inputs with open sizes, by name.

        Compiles the network if no session for these shapes is kept.
        """
        key = tuple(shapes.values())
        found = self._sessions.pop(key, None)
        if found is None:
            found = self._network.session(shapes)
            if len(self._sessions) == _MAX_PROGRAMS:
                self._sessions.pop(next(iter(self._sessions))).close()
        # The session that ran last is closed last.
        self._sessions[key] = found
        return found


def _warn_about_providers(providers: Sequence[Provider] | None) -> None:
    """Warn about execution providers that have no effect here."""
    names = [each if isinstance(each, str) else each[0] for each in providers or ()]
    ignored = [name for name in names if name not in PROVIDERS]
    if ignored:
        warn_ignored(
            f"{', '.join(ignored)} is ignored: the engine runs what it can, the host the rest",
            "choose a device of Matloom with device=, or MATLOOM_DEVICE",
        )
