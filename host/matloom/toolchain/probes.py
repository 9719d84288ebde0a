"""Adds probes to Verilog that report which units are issued instructions and complete them."""

from matloom.arch.isa import UNITS

_CONTROL = "matloom.core.control"

#: By module: the kind of event that its probe reports, and the signal with one bit for each unit.
_PROBED_EVENTS = {
    f"{_CONTROL}.dispatch": ("0", "issue"),
    f"{_CONTROL}.scoreboard": (
        "1",
        f"{{{', '.join(f'{unit.name.lower()}__done' for unit in reversed(UNITS))}}}",
    ),
}

_PROBE = """\
  // Nothing here is part of the chip.
  import "DPI-C" function void matloom_probe(input longint cycle, input int kind, input int units);
  longint probe_cycle = 0;
  always @(posedge clk) begin
    probe_cycle <= probe_cycle + 1;
    if (|{units}) matloom_probe(probe_cycle, {kind}, 32'({units}));
  end
"""


def with_probes(verilog: str) -> str:
    """Return Verilog that calls the simulator's `matloom_probe` in cycles with an event.

    A call of kind 0 reports the units that were issued an instruction, and one of kind 1 those that
    completed one; bit n of `units` is for unit n of `UNITS`.

    Raises
    ------
    ValueError
        An expected module is missing.
    """
    for module, (kind, units) in _PROBED_EVENTS.items():
        start = verilog.find(f"module \\{module} (")
        end = verilog.find("\nendmodule", start)
        if start < 0 or end < 0:
            raise ValueError(f"the Verilog must have a module {module} to be probed")
        probe = _PROBE.replace("{units}", units).replace("{kind}", kind)
        verilog = f"{verilog[:end]}\n{probe}{verilog[end + 1 :]}"
    return verilog
