"""Constants that steer the search, each with its unit, reason and measurement.

They affect only how fast a program is, or how fast it is found, never what it computes.
`bench/sweep_tuning.py` halves and doubles one after another and compares predicted cycles; the
results are in `sensitivity`. Values are read when they are used, so a sweep or a test may change
them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TuningConstant:
    """Description of a tuning constant: its unit, its purpose, and the evidence for its value.

    Members
    -------
    unit:
        Unit of the value.
    reason:
        What the constant decides, and why it is not much smaller or larger.
    chosen:
        The measurement or estimate behind the value.
    sensitivity:
        Change of the predicted cycles of first calls with half and twice the value: the sum over
        kws, ad, str_ww, micro_speech and digits at `nano` and `reference`, and the network that
        changes most. Networks that fit the scratchpad cannot show effects of a shortage of memory.
    """

    unit: str
    reason: str
    chosen: str
    sensitivity: str = ""


#: Tiles.
CHUNK_BYTES = 24 * 1024
SMALL_CHUNK_BYTES = 12 * 1024
FIRST_CHUNK_BYTES = 2 * 1024
FIRST_TILE_BYTES = 24 * 1024
LOAD_BYTES = 1024
ORDINARY_TILES = 4
FEW_TILES = 2
FILLED_TILES = 3
FILLED_VECTORS = 16
BLOCK_ENTRIES = 40
TALLER_TILES = 0.9
WIDER_TILES = 1.125
RESULT_CYCLES = 24
RESULT_LATENCY = 160
RAGGED_BLOCKS = 6
SMALLEST_TILE_BYTES = 16
NARROWER_BYTES = 64
STORED_BEATS = 4

#: Order and addresses.
STORED_TILES = 2
JOINT_SHARE = 16
JOINT_BEATS = 2
REST_SLOTS = 2
INPUT_CONFLICT = 16
SHARED_PART = 0.4
SHARED_BYTES = 1.5
SHARED_READS = 2
TURN_TILES = 1
PARTS_AHEAD = 3
STRIPS_AHEAD = 1

FUSED_MAPS = 0.4
FUSED_BYTES = 0.5
FUSED_ROWS = 2
FUSED_FASTER = 1.0

#: Comparison of candidates.
STREAMED_BYTES = 1.4
FEW_STAGES = 8
STAGES_TRIED = 3
LARGE_PROLOGUES = 2
FIRST_CALL_SLOWER = 1.005
LATER_CALLS_FASTER = 0.98
ESTIMATE_FASTER = 0.984
PART_GAIN = 0.018
LARGEST_PART = 0.5
PART_RATIO = 0.66
PARTS = 4
STRIPS_FASTER = 0.98
TURNS_GAIN = 0.05
TURNS_SURE = 0.15
GROUPS_GAIN = 0.02
STRIPS_SURE = 0.95
BANK_WAITS = 0.06
BUSY = 0.85

#: Compile time.
ATTEMPTS = 400
MANY_SLOTS = 8000
LONG_SLOTS = 2000
VERY_LONG_SLOTS = 40_000

TABLE: dict[str, TuningConstant] = {
    "CHUNK_BYTES": TuningConstant(
        unit="bytes",
        reason="Preferred bytes of weights per LOAD: enough to hide its latency.",
        chosen="no measurement on record (commit bdc94ff); see its sensitivity",
        sensitivity="half +0.01 %, micro_speech at reference -1.79 %; "
        "twice +0.02 %, micro_speech at reference +1.31 %",
    ),
    "SMALL_CHUNK_BYTES": TuningConstant(
        unit="bytes",
        reason="Preferred bytes of weights per LOAD if the scratchpad has no room for all weights: "
        "small chunks fill the gaps between buffers, and so arrive earlier.",
        chosen="decision 0055: mediapipe_face_landmark 364,008 cycles with 24 KiB, 354,172 with "
        "12, 361,917 with 8",
    ),
    "FIRST_CHUNK_BYTES": TuningConstant(
        unit="bytes",
        reason="The same for the first stage, during whose first LOAD nothing else runs.",
        chosen="commit 178a22e, first and last tiles made small",
        sensitivity="half -0.03 %, kws at reference +0.21 %; "
        "twice +0.11 %, kws at reference +1.59 %",
    ),
    "FIRST_TILE_BYTES": TuningConstant(
        unit="bytes",
        reason="Input and output of a tile of the first stage, which waits for its first tile.",
        chosen="commit 178a22e, first and last tiles made small",
        sensitivity="none",
    ),
    "LOAD_BYTES": TuningConstant(
        unit="bytes",
        reason="Maximum size of a LOAD that element-wise tiles share: the first of them waits for "
        "all of it.",
        chosen="decision 0043: palm_detection_256 at nano 73,253,445 cycles, 73,740,049 with twice",
    ),
    "ORDINARY_TILES": TuningConstant(
        unit="tiles",
        reason="Minimum number of tiles of a stage: the next stage starts while the last tile is "
        "post-processed. Tiles cost instructions.",
        chosen="the search tries 2, 3, 8 and 16 for the first stage as well",
    ),
    "FEW_TILES": TuningConstant(
        unit="tiles",
        reason="The same for windows, whose tiles stream more rows than they produce, and for "
        "stages of one step, where POST takes as long as EXEC.",
        chosen="commit e86f8ea, few tiles of windows and of one step",
        sensitivity="none",
    ),
    "FILLED_TILES": TuningConstant(
        unit="tiles",
        reason="Preferred number of tiles of a stage whose first tile also copies a repeated "
        "input to the accumulators, and so takes as long as two others.",
        chosen="decision 0040: arrhythmia 45,132 cycles with 3, 45,716 with 5, 46,584 with 8",
    ),
    "FILLED_VECTORS": TuningConstant(
        unit="vectors",
        reason="Minimum size of these tiles: an instruction has a fixed cost.",
        chosen="decision 0040: 8 and 16 are equal for arrhythmia",
    ),
    "BLOCK_ENTRIES": TuningConstant(
        unit="accumulator entries",
        reason="Preferred size of a tile of a few output blocks: POST has a fixed cost per tile.",
        chosen="commit 1544369, tiles of channels",
        sensitivity="half +0.01 %, str_ww at reference +1.07 %; "
        "twice -0.01 %, str_ww at reference -0.48 %",
    ),
    "TALLER_TILES": TuningConstant(
        unit="of the vectors that a window streams",
        reason="Threshold for fewer blocks and more rows: the next stage waits for all channels.",
        chosen="0.8 to 1 on six networks at reference: 0.9 is best; vww 38,637 cycles with 1",
    ),
    "WIDER_TILES": TuningConstant(
        unit="times",
        reason="Factor by which a tile may exceed its bytes if that saves a tile per row.",
        chosen="decision 0043: palm_detection_256 at nano has 10.5 % fewer instructions",
    ),
    "RESULT_CYCLES": TuningConstant(
        unit="cycles",
        reason="POST of one block of one position; weight tiles that load more slowly hide it.",
        chosen="the latency of POST (`arch.machine`): 20 cycles, and an update of accumulators",
        sensitivity="none",
    ),
    "RESULT_LATENCY": TuningConstant(
        unit="cycles",
        reason="From the last vector of a small tile until the next stage can read its results.",
        chosen="decision 0021, kws 13,479 to 13,394 cycles with first tiles of two rows",
        sensitivity="half +0.02 %, kws at reference +0.61 %; twice 0",
    ),
    "RAGGED_BLOCKS": TuningConstant(
        unit="blocks",
        reason="Whole vectors that an element-wise POST makes as blocks, together with a shorter "
        "one at the end: a block takes the cycles to replicate parameters, five or more, and a "
        "POST of its own some 45.",
        chosen="decision 0038: trained_lstm_int8 in words at reference 31,365 cycles, 47,390 with "
        "none",
    ),
    "SMALLEST_TILE_BYTES": TuningConstant(
        unit="bytes",
        reason="Lower bound if memory is short; a plan that still does not fit is given up.",
        chosen="no measurement on record (commit bdc94ff); a bound that few networks reach",
        sensitivity="none",
    ),
    "NARROWER_BYTES": TuningConstant(
        unit="bytes",
        reason="Minimum saving to load a part of input rows, each of them as a separate burst.",
        chosen="no measurement on record (commit 7f76e97); see its sensitivity",
        sensitivity="none",
    ),
    "STORED_BEATS": TuningConstant(
        unit="beats",
        reason="Minimum row of a STORE if tiles have fewer output blocks and more rows: shorter "
        "bursts wait for responses.",
        chosen="decision 0030, depthwise 3x3 on 112x112x32 from memory: 59,864 to 56,569 cycles",
    ),
    "STORED_TILES": TuningConstant(
        unit="tiles",
        reason="Distance to the producer of tiles read from external memory, so that the "
        "arithmetic of the tiles between hides STORE and LOAD.",
        chosen="commit 115aa0c, what reads a stored tile stays behind it",
        sensitivity="none",
    ),
    "JOINT_SHARE": TuningConstant(
        unit="1 / scratchpad",
        reason="Share of the scratchpad that tiles with a common STORE may fill with their "
        "results. Two such buffers are on chip at a time, next to inputs and weights.",
        chosen="decision 0043, mobilenetv2_160_035 at nano: an eighth takes 4,946,962 cycles, a "
        "sixteenth 4,922,306",
    ),
    "JOINT_BEATS": TuningConstant(
        unit="beats",
        reason="Tiles share a STORE if the rows of their results are no longer than this. Longer "
        "rows are stored fast enough by themselves, and would leave less room for weights.",
        chosen="decision 0043, palm_detection_256 at nano: rows of three beats made its layers of "
        "128 channels 8 % slower",
    ),
    "REST_SLOTS": TuningConstant(
        unit="slots",
        reason="Pause before bytes of an input tile are reused: a LOAD would wait for their EXEC.",
        chosen="commit 2c1f475, an input tile rather if nothing was just read",
        sensitivity="none",
    ),
    "INPUT_CONFLICT": TuningConstant(
        unit="times",
        reason="Cost of a bank shared with an input, relative to one shared by weights. When "
        "weights are placed, in each slot in which EXEC reads the input.",
        chosen="commit 2ca6088, weights share banks with weights rather than with inputs",
        sensitivity="none",
    ),
    "SHARED_PART": TuningConstant(
        unit="of the scratchpad",
        reason="Minimum size of tensors that share a buffer, or that tiles hand over: others save "
        "less than bank waits and longer lives of tiles cost.",
        chosen="decision 0040: shufflenetv2 at nano 4,171,311 with 0.25, 4,011,419 with 0.4",
    ),
    "SHARED_BYTES": TuningConstant(
        unit="times a tensor",
        reason="Maximum size of a shared buffer, which stays until its last tensor is read.",
        chosen="no measurement: two windows follow each other at most in the networks known",
    ),
    "SHARED_READS": TuningConstant(
        unit="times the bytes that a tile reads",
        reason="Limit on the bytes of all channels that depthwise tiles of the same positions load "
        "together; more would leave too little room for other tiles.",
        chosen="decision 0062: mobilenet_v2 at nano 30,898,708 cycles with 1.5, 27,081,700 with 2",
    ),
    "PARTS_AHEAD": TuningConstant(
        unit="parts of an input",
        reason="Parts that are loaded ahead of the one that tiles read: more would take space from "
        "the results, and plans that do not fit have smaller tiles.",
        chosen="decision 0062: depthwise 3x3 on 50x28x96 in strips 58,062 cycles, 70,713 without a "
        "limit; with rows apart 65,302 with 1, 61,650 with 3",
    ),
    "STRIPS_AHEAD": TuningConstant(
        unit="strips",
        reason="The same for strips of rows, which are larger.",
        chosen="decision 0030",
    ),
    "TURN_TILES": TuningConstant(
        unit="tiles",
        reason="Distance between stages that take turns, so that the arithmetic of the tiles "
        "between hides POST.",
        chosen="decision 0062: palm_detection_256 at reference 3,921,003 cycles with 1, 4,028,889 "
        "with 2",
    ),
    "FUSED_MAPS": TuningConstant(
        unit="of the scratchpad",
        reason="Minimum size of a map around which layers are fused. Smaller ones stay on chip.",
        chosen="decision 0061: mobilenet_v2 of 224 x 224 at reference 1,680,474 cycles with 0.5, "
        "1,647,538 with 0.3",
    ),
    "FUSED_BYTES": TuningConstant(
        unit="of the scratchpad",
        reason="Maximum bytes of the maps that a round of fused layers makes for itself: shorter "
        "ones make more rows twice, longer ones leave no room for weights and the next round.",
        chosen="decision 0061: mobilenet_v2 of 224 x 224 at reference 1,731,790 cycles with 0.25, "
        "1,680,474 with 0.4, 1,669,591 with 0.55",
    ),
    "FUSED_ROWS": TuningConstant(
        unit="rows",
        reason="Minimum rows that the last of fused layers makes in a round: of fewer rows, "
        "kernels of three rows read most of the map again.",
        chosen="no measurement: a bound that few networks reach",
    ),
    "FUSED_FASTER": TuningConstant(
        unit="times",
        reason="Estimated cycles of fused layers relative to those of the schedule without, "
        "below which they are planned, which takes as long as the first plan.",
        chosen="decision 0061: with 1.1, detection at small takes 3.1 % less, and "
        "mobilenetv2_160_035 at nano 0.5 % more",
    ),
    "STREAMED_BYTES": TuningConstant(
        unit="times",
        reason="Limit on the bytes loaded if weights are reloaded for each tile, relative to "
        "loading once: the estimate ignores halos, short rows and transfers that nothing "
        "hides.",
        chosen="commit 66bb992; prediction decides where stages are few (`FEW_STAGES`)",
        sensitivity="none",
    ),
    "FEW_STAGES": TuningConstant(
        unit="stages",
        reason="Maximum for planning both ways of `STREAMED_BYTES`, which then takes little time.",
        chosen="commit 2f06baa, few stages try weights once and streamed",
        sensitivity="none",
    ),
    "STAGES_TRIED": TuningConstant(
        unit="stages",
        reason="Their predicted cycles choose the start, on which later stages hardly depend.",
        chosen="commit 1544369, the start chosen by prediction",
        sensitivity="half +0.12 %, kws at reference +2.69 %; twice 0",
    ),
    "LARGE_PROLOGUES": TuningConstant(
        unit="candidates",
        reason="Prologues tried if weights do not stay on chip; each needs a plan of all stages.",
        chosen="no measurement on record; a bound on compile time",
        sensitivity="none",
    ),
    "FIRST_CALL_SLOWER": TuningConstant(
        unit="times",
        reason="Factor by which resident weights may slow down the first call.",
        chosen="decision 0006",
    ),
    "LATER_CALLS_FASTER": TuningConstant(
        unit="times",
        reason="Cycles of later calls relative to the first, below which weights become resident.",
        chosen="decision 0006",
    ),
    "ESTIMATE_FASTER": TuningConstant(
        unit="times",
        reason="The same for estimates, which ignore that other tiles suit calls without LOADs.",
        chosen="decision 0021, 1.6 % by the estimate where plans gain 2 %",
    ),
    "PART_GAIN": TuningConstant(
        unit="of the predicted cycles",
        reason="Gain of later calls from which weights of which only a part stays are planned, "
        "which takes as long as the first plan for each part. It is estimated as that part of the "
        "gain if no weights were loaded.",
        chosen="decision 0068: networks that gain more than 2 % are estimated at 0.019 and more",
    ),
    "LARGEST_PART": TuningConstant(
        unit="of the scratchpad",
        reason="Largest part that weights fill between calls if not all of them fit; tiles need "
        "the rest.",
        chosen="decision 0054: 0.5 is best for dcgan_gen and keyword_spotting_on_off_v3",
    ),
    "PART_RATIO": TuningConstant(
        unit="times",
        reason="Each part that is tried relative to the one before; the first that does not slow "
        "down the first call is kept.",
        chosen="decision 0054: mbnet96_0.25_q keeps a seventh of the scratchpad",
    ),
    "PARTS": TuningConstant(
        unit="candidates",
        reason="Number of parts to try; each takes as long as the first plan.",
        chosen="decision 0054",
    ),
    "STRIPS_FASTER": TuningConstant(
        unit="times",
        reason="Estimated cycles with strips of rows relative to those without, below which "
        "strips are planned, which takes as long as the first plan.",
        chosen="decision 0030: networks that gain by strips are estimated to gain 5 % and more",
    ),
    "TURNS_GAIN": TuningConstant(
        unit="of the predicted cycles",
        reason="Estimated gain of stages in turns from which they are planned, which takes as long "
        "as the first plan.",
        chosen="decision 0062: networks that gain are estimated at 0.06 and 0.20, one that does "
        "not at 0.04",
    ),
    "TURNS_SURE": TuningConstant(
        unit="of the estimated cycles",
        reason="The same, from which only the schedule with turns is made.",
        chosen="decision 0062: palm_detection_256 at reference is estimated at 0.48 and gains 0.13",
    ),
    "GROUPS_GAIN": TuningConstant(
        unit="of the predicted cycles",
        reason="Estimated gain of two stages by groups of channels from which they are planned, "
        "which takes as long as the first plan or longer.",
        chosen="decision 0064: dcgan_gen is estimated at 0.11 and gains 0.13; no other "
        "network of the collections is estimated to gain",
    ),
    "STRIPS_SURE": TuningConstant(
        unit="times",
        reason="The same, below which only the schedule with strips is made.",
        chosen="decision 0030: what is estimated to gain 5 % gains",
    ),
    "BUSY": TuningConstant(
        unit="of the cycles",
        reason="If EXEC or POST is busier, results over inputs are compared with separate ones.",
        chosen="decision 0040: five networks at nano, 0.87 and more, lose 0.2 to 2.5 %",
    ),
    "BANK_WAITS": TuningConstant(
        unit="of predicted cycles",
        reason="Waits of POST and STORE for banks, above which a plan that shares banks is made "
        "again with different ones, which takes as long.",
        chosen="decision 0036: at 3 to 5 % nothing is gained, at 7 to 31 % 0.4 to 5.7 %",
    ),
    "ATTEMPTS": TuningConstant(
        unit="plans",
        reason="Limit on the plans of a candidate, each with tighter choices, to end any search.",
        chosen="no measurement on record; no network of the collections reaches it",
        sensitivity="none",
    ),
    "MANY_SLOTS": TuningConstant(
        unit="slots",
        reason="Size from which single tiles and first stages are tried first: a plan takes long.",
        chosen="no measurement on record; a bound on compile time",
        sensitivity="none",
    ),
    "LONG_SLOTS": TuningConstant(
        unit="slots",
        reason="Size from which different banks are used if they fit, without a comparison.",
        chosen="decision 0043: palm_detection_256 (3,549 slots) compiles in 2.3 s instead of 3.2",
    ),
    "VERY_LONG_SLOTS": TuningConstant(
        unit="slots",
        reason="Size from which the plan of an only start gets separate banks uncompared.",
        chosen="decision 0043: bisenetv2_256 (44,775 slots) at `nano` is emitted once, not twice",
        sensitivity="2,000 slots: yolo_person_detect at nano takes 3.5 % more cycles",
    ),
}


@contextmanager
def override(values: Mapping[str, float]) -> Iterator[None]:
    """Give constants other values, by name, for the duration of a ``with`` block.

    Raises
    ------
    KeyError
        There is no such constant.
    """
    before = {name: globals()[name] for name in values if TABLE[name]}
    globals().update({name: type(before[name])(values[name]) for name in values})
    try:
        yield
    finally:
        globals().update(before)
