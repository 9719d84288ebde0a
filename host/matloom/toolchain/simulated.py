"""Rewrites generated Verilog so that it simulates faster, with the same results."""

import re

from matloom.toolchain.rewrite_preconditions import require_one_writer

#: Minimum number of byte lanes to join into one write of a word.
_MIN_LANES = 8

#: An initial block that fills a memory with zeros.
_ZEROS = re.compile(r"^  initial begin\n(?:^ *\S+ ?\[\d+\] = \d+'[hd]0+;\n)*^  end\n", re.MULTILINE)
_LANE = re.compile(
    r"(?P<indent> *)if \((?P<mask>\S+) ?\[(?P<bit>\d+)\]\)\n"
    r" *(?P<memory>\S+) ?\[(?P<address>.+)\]\[(?P<high>\d+):(?P<low>\d+)\]"
    r" <= (?P<data>\S+) ?\[(?P<data_high>\d+):(?P<data_low>\d+)\];\n"
)
_REPEATED = re.compile(r"(?<=[{ ])((?:\\\S+ |[\w.$]+)(?: ?\[\d+\])?)(?:, \1){2,}(?=[ ,}])")


def for_simulation(verilog: str) -> str:
    """Return equivalent Verilog that simulates faster.

    Three constructs change, which the generator cannot write differently itself:

    - The lanes of a memory's write port are assigned one by one, each under its own condition,
      which a simulator evaluates in every cycle. They become one assignment of the word, with the
      old bytes where the mask is zero. This requires that nothing else writes the memory, and
      raises ValueError if something does.
    - A bit that is repeated in a concatenation, such as the sign of a shifted number, becomes a
      replication, which is faster than a shift and an addition for each bit.
    - Memories of zeros lose their list of initial values. They start with what the simulator gives
      uninitialised memories (`--x-initial`), on which no result depends.
    """
    verilog = _ZEROS.sub("", verilog)
    return _REPEATED.sub(_replication, _join_lanes(verilog))


def _replication(run: re.Match[str]) -> str:
    """Return a replication for a concatenation that repeats a bit."""
    return f"{{{run[0].count(',') + 1}{{{run[1]}}}}}"


def _join_lanes(verilog: str) -> str:
    """Return Verilog in which consecutive assignments to lanes of a word are one assignment.

    A lane is a part of a memory's word with its own write enable.
    """
    runs: list[list[re.Match[str]]] = []
    for lane in _LANE.finditer(verilog):
        if runs and _is_next_lane(runs[-1][-1], lane):
            runs[-1].append(lane)
        else:
            runs.append([lane])
    require_one_writer(verilog, runs, _MIN_LANES)
    pieces, end = list[str](), 0
    for run in runs:
        pieces += [verilog[end : run[0].start()], _word_assignment(run)]
        end = run[-1].end()
    return "".join((*pieces, verilog[end:]))


def _is_next_lane(lane: re.Match[str], following: re.Match[str]) -> bool:
    """Return whether two assignments to lanes are adjacent, both in the text and in the word."""
    same = ("mask", "memory", "address", "data")
    return (
        following.start() == lane.end()
        and all(following[name] == lane[name] for name in same)
        and int(following["bit"]) == int(lane["bit"]) + 1
        and int(following["low"]) == int(lane["high"]) + 1
        and int(following["data_low"]) == int(lane["data_high"]) + 1
    )


def _word_assignment(run: list[re.Match[str]]) -> str:
    """Return one assignment for a run of assignments to adjacent lanes of a memory's word.

    Fewer than `_MIN_LANES` assignments are returned unchanged.
    """
    first, last = run[0], run[-1]
    if len(run) < _MIN_LANES:
        return "".join(lane[0] for lane in run)
    indent, mask, data = first["indent"], f"{first['mask']} ", f"{first['data']} "
    word = f"{first['memory']} [{first['address']}][{last['high']}:{first['low']}]"
    lanes = ", ".join(
        f"{{{int(lane['high']) - int(lane['low']) + 1}{{{mask}[{lane['bit']}]}}}}"
        for lane in reversed(run)
    )
    return (
        f"{indent}if (|{mask}[{last['bit']}:{first['bit']}])\n"
        f"{indent}  {word} <= ({word} & ~{{{lanes}}})\n"
        f"{indent}    | ({data}[{last['data_high']}:{first['data_low']}] & {{{lanes}}});\n"
    )
