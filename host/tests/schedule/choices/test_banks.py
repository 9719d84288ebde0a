"""Plans that gave up different banks try them again where POST and STORE wait for banks."""

from dataclasses import replace

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.schedule import tuning
from support.chain import Chain, exact_programs

#: Too small for two of the maps below.
SMALL = replace(PRESETS["reference"], spad_bytes=65536, spad_banks=4)


def test_banks_apart_are_exact_and_no_slower():
    graph = Chain((1, 40, 40, 8), seed=1).convolve(24).convolve(24, 3).convolve(8).graph()
    cycles = []
    for share in (1.0, 0.0):
        with tuning.changed({"BANK_WAITS": share}):
            cycles.append(compile_network(graph, SMALL, CompileOptions()).predicted_cycles)
            exact_programs(graph, SMALL, (None,))
    assert cycles[1] <= cycles[0]
