"""Accumulators: two banks of 32-bit sums, updated by the array and by post-processing."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.numerics import LARGER_BITS
from matloom_rtl.arith.add import FloatAdd
from matloom_rtl.array import parity
from matloom_rtl.array.cells import delay, replicate
from matloom_rtl.array.sums import ArrivingSums, column_sums
from matloom_rtl.ports import AccReadSignature, AccUpdateSignature

__all__ = ["Accumulators"]


class Accumulators(wiring.Component):
    """Two banks of accumulators, each serving one update or one read per cycle.

    The top bit of the entry address selects the bank. Within a bank, updates from the array have
    priority and never stall, then updates from post-processing, then reads. `ready` depends on
    `valid` and `address` of the other requests, never on its own `valid`.

    A request granted in cycle t reads its bank at the end of t and has the word in a register in
    t + 2, when read data is valid (`ACC_READ_LATENCY`). An update adds in t + 2 and writes in
    t + 3; the sum is visible to requests granted in t + 4 or later (`acc_update_latency`).
    Nothing is forwarded: requesters must keep this distance. With floating-point modes an
    addition takes `FloatAdd.LATENCY` cycles instead of one, also for integers.
    Throughput: one request per cycle and bank. Reset discards updates that are not yet written
    and keeps the stored sums.

    With narrow modes each bank consists of two memories, selected by the next address bit.
    A narrow update addresses a pair of entries that differ in that bit only, and updates both.

    With `Config.parity` each sum has a 33rd bit for even parity. All columns of an entry are
    checked when a request uses the stored value. Replacing an entry does not use it, and a
    request must not coincide with a write to the same entry. `wrong` is valid four cycles after
    the grant and stalls nothing.

    Members
    -------
    sum_valid, sum_entry, sum_add, sum_maximum: in
        Array update of all columns in the next cycle, as in `AccUpdateSignature` but without
        `ready`. Announced a cycle early so that the arbiter is driven from registers.
        `sum_maximum` is ignored without `Config.maximum`.
    sums: in
        Sums for the update announced in the previous cycle, 32 bits per column.
    sum_narrow, seconds: in
        The update is for a pair of entries (timed like `sum_entry`), and the sums of its second
        entry (timed like `sums`). Only with narrow modes.
    sum_floating: in
        The sums are fp32 numbers. Only with floating-point modes.
    update: AccUpdateSignature, in
    read: AccReadSignature, in
    wrong: out
        Parity error in an entry used by the array (bit 0) or by post-processing (bit 1). Only
        with `Config.parity`.
    """

    def __init__(self, config: Config):
        self._columns = config.columns
        self._bank_entries = config.acc_entries // 2
        self._has_narrow = config.has_narrow
        self._has_float = config.has_float
        self._has_maximum = config.maximum
        self._parity = config.parity
        #: Memories of the banks, once elaborated: simulations inspect them and flip bits.
        self.memories: list[Memory] = []
        # Cycles from the operands to the registered sum.
        self._sum_latency = FloatAdd.LATENCY if config.has_float else 1
        assert config.acc_update_latency == 3 + self._sum_latency
        narrow = {"sum_narrow": In(1), "seconds": In(32 * config.columns)}
        super().__init__(
            {
                "sum_valid": In(1),
                "sum_entry": In(config.acc_addr_bits),
                "sum_add": In(1),
                "sum_maximum": In(1),
                "sums": In(32 * config.columns),
                "update": In(AccUpdateSignature(config)),
                "read": In(AccReadSignature(config)),
                **(narrow if config.has_narrow else {}),
                **({"sum_floating": In(1)} if config.has_float else {}),
                **({"wrong": Out(2)} if config.parity else {}),
            }
        )

    def elaborate(self, platform):
        """Return the module: both banks of memory, and the arbitration of their accesses."""
        m = Module()
        self.memories = []
        bits, self._wrong = (self._bank_entries - 1).bit_length(), []
        update, read = self.update, self.read
        update_bank, read_bank = update.address[bits], read.address[bits]
        arriving = Signal(2)
        entry = Signal(bits, reset_less=True)
        sum_replace = Signal(reset_less=True)
        sum_maximum = Signal(reset_less=True)
        sum_bank = self.sum_entry[bits]
        if self._has_narrow:
            sum_bank = Mux(self.sum_narrow, self.sum_entry[bits - 1], sum_bank)
        m.d.sync += [
            arriving.eq(Mux(self.sum_valid, Mux(sum_bank, 2, 1), 0)),
            entry.eq(self.sum_entry),
            sum_replace.eq(~self.sum_add | self.sum_maximum),
            sum_maximum.eq(self.sum_add & self.sum_maximum),
        ]
        m.d.comb += [
            update.ready.eq(~arriving.bit_select(update_bank, 1)),
            read.ready.eq(
                ~arriving.bit_select(read_bank, 1) & ~(update.valid & (update_bank == read_bank))
            ),
        ]

        # Operands wait here while the memories are read.
        sums = Signal(32 * self._columns, reset_less=True)
        values = delay(m, update.data)
        mask = Signal(self._columns, reset_less=True)
        m.d.sync += [sums.eq(self.sums), mask.eq(update.mask)]

        seconds = []
        if self._has_narrow:
            self._narrow = Signal(reset_less=True)
            seconds = [Signal.like(sums, name="seconds")]
            m.d.sync += [
                self._narrow.eq(self.sum_narrow),
                seconds[0].eq(Mux(self._narrow, self.seconds, self.sums)),
            ]
        if self._has_float:
            sum_floating = Signal(reset_less=True)
            m.d.sync += sum_floating.eq(self.sum_floating)

        operands = [ArrivingSums(self._columns, delay(m, each)) for each in (sums, *seconds)]
        words = []
        for index in range(2):
            request = Signal(self._request_layout(bits), name=f"request_{index}")
            with m.If(arriving[index]):
                m.d.comb += [
                    request.sum.eq(1),
                    request.replace.eq(sum_replace),
                    request.maximum.eq(sum_maximum),
                    request.address.eq(entry),
                ]
                if self._has_float:
                    m.d.comb += request.floating.eq(sum_floating)
            with m.Elif(update.valid & (update_bank == index)):
                m.d.comb += [
                    request.update.eq(1),
                    request.replace.eq(~update.add),
                    request.address.eq(update.address),
                ]
                if self._has_float:
                    m.d.comb += request.floating.eq(update.floating)
            with m.Else():
                m.d.comb += [
                    request.read.eq(read.valid & (read_bank == index)),
                    request.address.eq(read.address),
                ]
            if self._has_narrow:
                words.append(self._halves(m, index, request, operands, values, mask))
                continue
            words.append(self._bank(m, f"{index}", request, operands[0], values, mask))
        if self._has_maximum:
            for each in operands:
                self._compare(m, each)
        self._answer(m, read_bank, words)
        if self._parity:
            m.d.sync += self.wrong.eq(reduce(or_, self._wrong))
        return m

    def _halves(self, m: Module, index: int, request, operands, values, mask):
        """Connect the halves of bank `index` to a request for one or both; return the word read.

        The word is that of the half that the address selects, two cycles after the request.
        """
        bits = request.address.shape().width - 1
        both, second = request.sum & self._narrow, request.address[bits]
        words = []
        for half, operand in enumerate(operands):
            part = Signal(self._request_layout(bits), name=f"request_{index}_{half}")
            m.d.comb += [part[name].eq(request[name]) for name in ("replace", "maximum", "address")]
            with m.If(both | (second == half)):
                m.d.comb += [part[name].eq(request[name]) for name in ("sum", "update", "read")]
            words.append(self._bank(m, f"{index}_{half}", part, operand, values, mask))
        for _cycle in range(2):
            second = delay(m, second)
        return Mux(second, words[1], words[0])

    def _bank(self, m: Module, index: str, request, arriving, values, mask):
        """Read, add, write; return the word read, two cycles after its request."""
        width, sum_bits = 32 * self._columns, parity.SUM_BITS if self._parity else 32
        m.submodules[f"bank_{index}"] = memory = Memory(
            shape=sum_bits * self._columns,
            depth=1 << request.address.shape().width,
            init=[],
            attrs={"no_rw_check": 1},
        )
        self.memories.append(memory)
        fetch, store = memory.read_port(), memory.write_port(granularity=sum_bits)
        m.d.comb += [
            fetch.addr.eq(request.address),
            fetch.en.eq(request.sum | request.update | request.read),
        ]
        found = fetch.data
        if self._parity:
            found = parity.without_parity(fetch.data)
        fetched = Signal(request.shape(), name=f"fetched_{index}")
        m.d.sync += fetched.eq(request)
        of_array, replaces = [delay(m, fetched.sum)], [fetched.replace]
        if self._has_float:
            of_array = replicate(m, fetched.sum, self._columns, name=f"of_array_{index}")
            replaces = replicate(m, request.replace, self._columns, name=f"replaces_{index}")

        word = Signal(width, name=f"word_{index}", reset_less=True)
        columns = Signal(self._columns, name=f"columns_{index}")
        m.d.sync += columns.eq(0)
        address = delay(m, fetched.address, name=f"address_{index}")
        # Loaded in every cycle: an enable would be one more signal to reach every bit.
        m.d.sync += word.eq(found)
        # Replacing is adding to zero, which is -0 in floating point.
        zero = fetched.floating << 31 if self._has_float else Const(0, 32)
        part = width // len(replaces)
        for place, flag in enumerate(replaces):
            with m.If(flag):
                m.d.sync += word.word_select(place, part).eq(zero.replicate(part // 32))
        # Not registered: this selection is absorbed by the carry cells of the adder.
        operand = Cat(
            Mux(flag, arriving.late.word_select(place, part), values.word_select(place, part))
            for place, flag in enumerate(of_array)
        )
        with m.If(fetched.sum):
            m.d.sync += columns.eq(~0)
        with m.Elif(fetched.update):
            m.d.sync += columns.eq(mask)

        arriving.found.append((fetched.maximum, found))
        keeps = delay(m, fetched.maximum, name=f"maximum_{index}")
        columns = columns & ~(arriving.kept & keeps.replicate(self._columns))
        for _cycle in range(self._sum_latency - 1):
            columns, address = delay(m, columns, reset=True), delay(m, address)
        m.d.sync += [store.en.eq(columns), store.addr.eq(address)]
        floating = delay(m, fetched.floating) if self._has_float else None
        stored = column_sums(m, index, word, operand, floating)
        if self._parity:
            stored = parity.with_parity(stored)
            self._wrong.append(parity.check(m, index, fetch, store, fetched))
        m.d.comb += store.data.eq(stored)
        return word

    def _compare(self, m: Module, arriving):
        """Drive `arriving.kept`: the columns whose stored number is not less than the new one.

        A maximum writes nothing to these columns. In the others, the new number is added to zero.
        The comparison, defined by `numerics.larger`, has registers of its own, shared by the banks,
        because only one bank at a time processes a sum.
        """
        (_first, in_first), (second, in_second) = arriving.found
        for column in range(self._columns):
            place = slice(32 * column, 32 * column + LARGER_BITS)
            old = delay(m, Mux(second, in_second[place], in_first[place]), name="old")
            new = arriving.late[place]
            m.d.comb += arriving.kept[column].eq(new.as_signed() <= old.as_signed())

    def _answer(self, m: Module, read_bank, words):
        """Drive `read.data` with the word of the bank that was read two cycles ago."""
        bank = delay(m, delay(m, read_bank))
        m.d.comb += self.read.data.eq(Mux(bank, words[1], words[0]))

    def _request_layout(self, address_bits: int) -> data.StructLayout:
        """Return the layout of a request to a bank: flags of the operation, and an address."""
        return data.StructLayout(
            {
                **dict.fromkeys(("sum", "update", "read", "replace", "maximum"), 1),
                "address": address_bits,
                **({"floating": 1} if self._has_float else {}),
            }
        )
