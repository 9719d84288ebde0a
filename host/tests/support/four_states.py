"""The chip in Verilator with a second rail per signal that tells which bits are undefined."""

import ctypes
import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.device.rtl import RtlTransport
from matloom.device.simulator import (
    Probe,
    arguments,
    build_chip_simulator,
    cached_or_built,
    load_probes,
    source_digest,
)

#: File with the list of a simulator's checks, next to its library.
_CHECKS = "checks.json"

#: Approximate minutes of a build.
_MINUTES = 6.0


@dataclass(frozen=True, kw_only=True)
class Undefined:
    """A meaningful output that is undefined: its name, and the first such cycle."""

    output: str
    cycle: int


def build(
    config: Config,
    change: Callable[[str], str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Path:
    """Return the two-rail simulator library of a configuration, cached or newly built.

    `change` edits the shipped Verilog, for example to add mutants that an input selects.

    Raises
    ------
    matloom_rtl.fpga.progress.FlowError
        Yosys fails, or is not installed (it comes with the extra ``fpga``).
    """
    from matloom_rtl.fpga.netlist import yosys_version

    changed = Path(inspect.getfile(change)).read_text() if change else ""
    digest = f"two rails {yosys_version()} {source_digest(config, '', 'events')} {changed}"
    key = hashlib.sha256(digest.encode()).hexdigest()
    return cached_or_built(key, config, lambda: _build(config, change, on_line), _MINUTES)


def _build(
    config: Config, change: Callable[[str], str] | None, on_line: Callable[[str], None] | None
) -> Path:
    from matloom_rtl.fpga.dual_rail import MUTANT_CHOICE, dual_rail
    from matloom_rtl.generate import TOP_NAME, generate

    chip = generate(config)
    shipped = change(chip.verilog) if change else chip.verilog
    rails = dual_rail(shipped, TOP_NAME, on_line or (lambda _line: None))
    flags = arguments(config, "", "events")
    if MUTANT_CHOICE in shipped:
        flags += ["-CFLAGS", "-DMATLOOM_MUTANTS"]
    checks = {_CHECKS: json.dumps(rails.checks)}
    return build_chip_simulator(chip, rails.verilog, flags, "events", on_line, checks)


class FourStateTransport(RtlTransport):
    """Like `RtlTransport`, with all registers and memories undefined before the first reset.

    The first build takes minutes. `state_seed` has no effect.

    Parameters
    ----------
    mutants, mutant:
        A function that adds mutants, selected by an input `mutsel`, to the shipped Verilog, and the
        number of the mutant to select; 0 for none.
    """

    def __init__(
        self,
        config: Config,
        *arguments: Any,
        mutants: Callable[[str], str] | None = None,
        mutant: int = 0,
        **options: Any,
    ) -> None:
        self._mutants, self._mutant = mutants, mutant
        self._found: list[Undefined] = []
        super().__init__(config, *arguments, **options)

    def _load(
        self, config: Config, trace: str, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        if trace:
            raise ValueError("waves must be of device 'rtl', not of a chip in two rails")
        path = build(config, self._mutants, on_line)
        self._checks: list[str] = json.loads(path.with_name(_CHECKS).read_text())
        library = load_probes(path)
        # Discard reports of an earlier simulation in this thread.
        library.matloom_take_events(ctypes.addressof((Probe * library.matloom_events())()))
        if self._mutants:
            library.matloom_choose(self._mutant)
        return library

    @property
    def undefined(self) -> list[Undefined]:
        """Return the meaningful outputs that were undefined since the chip was opened, each once.

        VALID, READY and the interrupt are meaningful in every cycle, payloads while they are valid,
        data while they are strobed. Only one simulation per thread can be queried at a time.
        """
        probes = (Probe * self._library.matloom_events())()
        self._library.matloom_take_events(ctypes.addressof(probes))
        self._found += [
            Undefined(output=self._checks[each.kind], cycle=each.cycle) for each in probes
        ]
        return list(self._found)
