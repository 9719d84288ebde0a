"""Yosys for mutants of the netlist: scripts with a time limit, and checks of equivalence."""

import re
from pathlib import Path

from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import YOSYS, find, run

#: What chooses a mutant in the Verilog of a chip with all of them.
_MUTANT_SELECT = re.compile(r"mutsel == \d+'h([0-9a-f]+)")

#: Seconds of processor time of an equivalence check; what takes longer counts as no equivalent.
_EQUIVALENCE_SECONDS = 40


def run_yosys(script: str, folder: Path, seconds: int = 3600) -> None:
    """Run a Yosys script in a folder; raise FlowError if it fails or takes too long."""
    (folder / "script.ys").write_text(script)
    limited = ["sh", "-c", f'ulimit -t {seconds} && exec "$0" "$@"']
    command = [*limited, find(YOSYS).path, "-q", "script.ys"]
    run(command, folder, "yosys.log", lambda _line: None)


def observable_mutants(verilog: Path) -> set[int]:
    """Return the numbers of the mutants that an output of the chip may depend on.

    The chip with all mutants is flattened and optimised, with wide cells split into bits. If the
    select input of a mutant is gone then, the mutant changes nothing: no logic reads the changed
    bit, or both variants are equal or undefined.
    """
    made = verilog.with_name(f"observed_{verilog.name}")
    if not made.is_file():
        run_yosys(
            f"read_verilog {verilog.name}\nhierarchy -auto-top\nproc\nflatten\nopt -full\n"
            "splitcells\nopt -full\nwrite_verilog -noattr observed.v\n",
            verilog.parent,
        )
        made.with_name("observed.v").rename(made)
    return {int(number, 16) for number in _MUTANT_SELECT.findall(made.read_text())}


def is_equivalent(mutant: str, folder: Path) -> bool:
    """Return whether a mutant in `chip.il` behaves like the original for every input of its module.

    Proven by induction with all named nets, or from any state of the registers and any value of the
    nets between them. If the time limit is exceeded, they count as different.
    """
    module = module_of(mutant)
    both = (
        f"read_rtlil chip.il\nhierarchy -top {module}\ncopy {module} gold\n"
        f"mutate {mutant}\nrename {module} gate\nflatten gold gate\nmemory_map gold gate\n"
        "opt_clean gold gate\n"
    )
    alone = "expose -evert-dff -dff -shared gold gate\nrename -hide gold/w:* gate/w:*\n"
    join = "equiv_make gold gate joined\nhierarchy -top joined\nopt -full\n"
    ways = (
        both + join + "equiv_simple -seq 3\nequiv_induct -seq 3\nequiv_status -assert\n",
        both + alone + "opt_clean gold gate\n" + join + "equiv_simple\nequiv_status -assert\n",
    )
    return any(_passes(script, folder) for script in ways)


def _passes(script: str, folder: Path) -> bool:
    """Return whether a Yosys script succeeds in `_EQUIVALENCE_SECONDS`."""
    try:
        run_yosys(script, folder, _EQUIVALENCE_SECONDS)
    except FlowError:
        return False
    return True


def module_of(mutant: str) -> str:
    """Return the module that a mutant changes."""
    match = re.search(r"-module (\S+)", mutant)
    assert match is not None
    return match[1]
