"""The component for Platform Designer, read by Tcl with commands that record their arguments."""

import shutil
import subprocess

import pytest

from matloom_rtl.integration.platform_designer import component

pytestmark = pytest.mark.skipif(not shutil.which("tclsh"), reason="tclsh is not installed")

#: Prints each call as a line, its words parted by tabs.
_STUBS = """
package provide qsys 18.1
foreach name {set_module_property add_fileset set_fileset_property add_fileset_file
              add_interface set_interface_property add_interface_port} {
    proc $name args "puts \\[join \\[linsert \\$args 0 $name\\] \\\\t\\]"
}
"""

#: Properties by type and end, from Intel's "Component Interface Tcl Reference" and AXI chapters.
_PROPERTIES = {
    ("clock", "end"): {"clockRate"},
    ("reset", "end"): {"associatedClock", "synchronousEdges"},
    ("interrupt", "end"): {"associatedClock", "associatedReset", "associatedAddressablePoint"},
    ("axi4lite", "end"): {
        *("associatedClock", "associatedReset", "readAcceptanceCapability"),
        *("writeAcceptanceCapability", "combinedAcceptanceCapability"),
    },
    ("axi4", "start"): {
        *("associatedClock", "associatedReset", "readIssuingCapability"),
        *("writeIssuingCapability", "combinedIssuingCapability"),
    },
}

#: Signals that AXI4 asks of a manager, and AXI4-Lite of a subordinate.
_AXI4_LITE = {
    *("awaddr", "awprot", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready"),
    *("bresp", "bvalid", "bready", "araddr", "arprot", "arvalid", "arready"),
    *("rdata", "rresp", "rvalid", "rready"),
}
_AXI4 = _AXI4_LITE | {
    *("awid", "awlen", "awsize", "awburst", "awlock", "awcache", "awqos", "wlast", "bid"),
    *("arid", "arlen", "arsize", "arburst", "arlock", "arcache", "arqos", "rid", "rlast"),
}


@pytest.fixture(scope="module")
def calls(nano, tmp_path_factory):
    """Return the component's calls, as words."""
    script = tmp_path_factory.mktemp("tcl") / "run.tcl"
    script.write_text(_STUBS + component(nano))
    done = subprocess.run(["tclsh", script], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_each_port_of_the_verilog_once(nano, calls):
    found = [words[2:] for words in calls if words[0] == "add_interface_port"]
    ports = {name: (direction.lower(), int(width)) for name, _role, direction, width in found}
    expected = {port["name"]: (port["direction"], port["width"]) for port in nano.sidecar["ports"]}
    assert len(found) == len(ports)
    assert ports == expected


def test_interfaces_have_the_signals_and_properties_of_their_type(calls):
    types = {words[1]: tuple(words[2:]) for words in calls if words[0] == "add_interface"}
    assert sorted(types.values()) == sorted(_PROPERTIES)
    roles = {name: set() for name in types}
    for words in calls:
        if words[0] == "set_interface_property":
            _call, name, key, value = words
            assert key in _PROPERTIES[types[name]]
            # A clock, a reset or a bus that is associated exists.
            assert not key.startswith("associated") or value in types
        if words[0] == "add_interface_port":
            roles[words[1]].add(words[3])
    assert {types[name]: signals for name, signals in roles.items()} == {
        ("clock", "end"): {"clk"},
        ("reset", "end"): {"reset"},
        ("interrupt", "end"): {"irq"},
        ("axi4lite", "end"): _AXI4_LITE,
        ("axi4", "start"): _AXI4,
    }


def test_both_file_sets_have_the_verilog(calls):
    kinds = [words[2] for words in calls if words[0] == "add_fileset"]
    assert kinds == ["QUARTUS_SYNTH", "SIM_VERILOG"]
    files = [words[1:5] for words in calls if words[0] == "add_fileset_file"]
    assert files == [["matloom.v", "VERILOG", "PATH", "matloom.v"]] * 2
