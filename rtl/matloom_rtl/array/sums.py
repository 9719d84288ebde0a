"""Adders of the accumulators: one per column, for integers and fp32 numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal

from matloom_rtl.arith.add import FloatAdd
from matloom_rtl.array.cells import delay, replicate

__all__ = ["ArrivingSums", "column_sums"]


class ArrivingSums:
    """Sums from the array, delayed until the memory words to be updated have been read.

    Members
    -------
    late:
        32 bits per column, valid when the word read is in its register.
    found:
        For each bank, a pair of what is valid one cycle before `late`: whether a maximum is
        requested, and the word read.
    kept:
        For each column: the maximum is the stored value, so nothing is written.
    """

    def __init__(self, columns: int, late):
        self.late, self.found = late, []
        self.kept = Signal(columns)


def column_sums(m: Module, index: str, word, operand, floating):
    """Return the column-wise sums of two words of 32-bit columns.

    `floating` tells whether the current words hold fp32 numbers; it is None in an engine without
    floating-point modes. `index` identifies the bank, for the names of signals.

    Latency: one cycle if `floating` is None, otherwise `FloatAdd.LATENCY` cycles, also for
    integers.
    """
    columns = len(word) // 32
    pairs = [(word.word_select(each, 32), operand.word_select(each, 32)) for each in range(columns)]
    sums = Signal(len(word), name=f"sums_{index}", reset_less=True)
    m.d.sync += sums.eq(Cat((first + second)[:32] for first, second in pairs))
    if floating is None:
        return sums
    waited = sums
    for _cycle in range(FloatAdd.LATENCY - 1):
        waited, floating = delay(m, waited), delay(m, floating)
    choices = replicate(m, floating, columns, name=f"floating_{index}")
    floats = []
    for column, (first, second) in enumerate(pairs):
        m.submodules[f"add_{index}_{column}"] = add = FloatAdd()
        m.d.comb += [add.a.eq(first), add.b.eq(second)]
        floats.append(add.o)
    return Cat(
        Mux(choice, number, waited.word_select(column, 32))
        for column, (choice, number) in enumerate(zip(choices, floats, strict=True))
    )
