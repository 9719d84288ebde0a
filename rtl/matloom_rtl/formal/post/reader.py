"""Proof of POST's reads ahead of its lanes: each request, room for its data, and the data."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal

from matloom.arch.isa import Addend, Source
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.positions import touched_banks
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.ports import ACC_READ_LATENCY, SPAD_READ_LATENCY
from matloom_rtl.post.products import Products
from matloom_rtl.post.reader import Reader

__all__ = ["reader", "reader_proofs"]


class _Parts:
    """Free inputs instead of the queue, requests and products, which are proven separately.

    Members
    -------
    level, unasked:
        Number of vectors in the queue, and of those whose last read waits to be granted.
    asked, granted:
        Whether the last read of a vector is requested, or granted, in this cycle.
    ports:
        The outputs of the removed units, inputs of the claim.
    """

    def __init__(self, m: Module, whitebox: Whitebox):
        config = whitebox.unit._config
        self.queue, self.requests = (
            whitebox.child(name).unit for name in ("queue", "byte_requests")
        )
        self.products = whitebox.child("products").unit if config.products else None
        self.ports = (*whitebox.free("queue"), *whitebox.free("byte_requests"))
        self.depth = self.queue._depth
        self.level, self.unasked = (
            Signal(range(self.depth + 2), name=name) for name in ("level", "unasked")
        )
        i, o = self.requests.i, self.requests.o
        self.asked = i.valid & i.ready & i.payload.of_vector & _completes(i)
        self.granted = o.valid & o.ready & o.payload.of_vector & _completes(o)
        m.d.sync += [
            self.level.eq(self.level + self.queue.w_en - self.queue.r_en),
            self.unasked.eq(self.unasked + self.asked - self.granted),
        ]
        m.d.comb += [
            Assume(self.queue.r_rdy == (self.level != 0)),
            Assume(~(o.valid & o.payload.of_vector & _completes(o)) | (self.unasked != 0)),
        ]
        #: Whether a product was begun one cycle ago, two cycles ago, and so on.
        self.multiplied = [Const(0)]
        if self.products is not None:
            self.ports += whitebox.free("products")
            self.multiplied = _earlier_bits(m, self.products.bytes_arrived, Products.LATENCY)
            m.d.comb += Assume(self.products.valid == self.multiplied[-1])


def _completes(stream):
    """Return whether the read shown by a stream is the last of its vector."""
    payload = stream.payload
    return payload.completes if "completes" in payload.shape().members else Const(1)


def _earlier_bits(m: Module, value, cycles: int) -> list:
    """Return the values of a bit one cycle ago, two cycles ago, and so on, as a list.

    Values are 0 for cycles before a reset.
    """
    values = [value]
    for _cycle in range(cycles):
        later = Signal(name=f"ago_{len(values)}")
        m.d.sync += later.eq(values[-1])
        values.append(later)
    return values[1:]


def reader(unit: Reader) -> Claim:
    """Claim that each position is requested and read once, that its data has room, and arrives.

    Assumes that a command is constant while any of its vectors are in flight.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    parts = _Parts(m, whitebox)
    from_bytes = unit.command.source == Source.SPAD
    multiplies = _combines(unit)
    acc, granted = unit.acc, parts.granted
    on_way = (
        _earlier_bits(m, acc.valid & acc.ready, ACC_READ_LATENCY),
        _earlier_bits(m, granted, SPAD_READ_LATENCY),
    )
    _claim_requests(m, whitebox, parts, (from_bytes, multiplies))
    _claim_arrivals(m, whitebox, parts, on_way, multiplies)
    _claim_room(m, whitebox, parts, on_way, (from_bytes, multiplies))
    m.d.comb += Cover((parts.level == 2) & parts.queue.w_en & from_bytes & (parts.unasked == 2))
    return Claim(module=m, ports=(*parts.ports, *inputs_of(unit)))


def _combines(unit: Reader):
    """Return whether the command combines each element with a sum, by a product or an addition."""
    command, config = unit.command, unit._config
    if not config.products:
        return Const(0)
    both = command.product | command.addend.any() if config.has_addends else command.product
    return both & (command.source == Source.SPAD)


def _claim_requests(m: Module, whitebox: Whitebox, parts: _Parts, kinds) -> None:
    """Claim that each position is requested completely, once, before the next one."""
    unit, (from_bytes, multiplies) = whitebox.unit, kinds
    config, position, acc, wanted = unit._config, unit.position, unit.acc, unit.parameters
    i, o, asking = parts.requests.i, parts.requests.o, whitebox.register(name="asking")
    part, last, words = Const(0), Const(1), config.has_word_products
    if config.element_size_bits:
        size = unit.numbers.size
        part = Signal((1 << config.element_size_bits).bit_length())
        last = part + 1 == 1 << size
        with m.If(i.valid & i.ready & i.payload.of_vector):
            m.d.sync += part.eq(Mux(last, 0, part + 1))
        m.d.comb += [
            Assume(size <= config.element_size_bits),
            Assume(~multiplies | (size == (unit.command.words if words else 0))),
            Assert(part < 1 << size),
            Assert(whitebox.register(name="part_read") == part),
            implies(part != 0, from_bytes),
        ]
    address = (position.address + part * config.columns)[: len(position.address)]
    mine, taken = i.valid & i.payload.of_vector, acc.valid & acc.ready
    banks = position.bank_select
    if config.element_size_bits:
        banks = touched_banks(address, config.columns, config)
    m.d.comb += [
        implies(mine, asking & from_bytes & (i.payload.address == address)),
        implies(mine, i.payload.bank_select == banks),
        implies(mine, i.payload.ends_block == position.block_end),
        implies(mine, _completes(i) == last),
        implies(acc.valid, asking & (~from_bytes | multiplies) & (acc.address == position.entry)),
        Assert(unit.advance == Mux(from_bytes, parts.asked, taken)),
        implies(multiplies, parts.asked == taken),
        # Parameters pass unchanged.
        implies(wanted.valid, i.valid & ~i.payload.of_vector & (wanted.ready == i.ready)),
        implies(i.valid & ~i.payload.of_vector, wanted.valid),
        implies(wanted.valid, i.payload.address == wanted.address[: len(address)]),
        implies(wanted.valid, i.payload.bank_select == wanted.bank_select),
        Assert((unit.spad.valid == o.valid) & (o.ready == unit.spad.ready)),
        Assert(unit.spad.address == o.payload.address),
        Assert(unit.spad.bank_select == o.payload.bank_select),
    ]
    _assume_constant(m, whitebox, asking | (part != 0))


def _assume_constant(m: Module, whitebox: Whitebox, begun) -> None:
    """Assume that command and number formats are constant while requests or reads are in flight."""
    unit, room = whitebox.unit, whitebox.register(name="room")
    held = Cat(unit.command, unit.numbers)
    before = Signal.like(held, name="held_before", reset_less=True)
    busy = Signal()
    m.d.sync += [before.eq(held), busy.eq(begun | (room != room.init))]
    m.d.comb += Assume(~busy | (held == before))


def _claim_arrivals(m: Module, whitebox: Whitebox, parts: _Parts, on_way, multiplies) -> None:
    """Claim that the data of each granted read arrives once, unchanged, with its block's end."""
    unit, queue, o = whitebox.unit, parts.queue, parts.requests.o
    (summed, read), spad = (each[-1] for each in on_way), unit.spad
    acc_end = _earlier_bits(m, unit.position.block_end, ACC_READ_LATENCY)[-1]
    spad_end = _earlier_bits(m, o.payload.ends_block, SPAD_READ_LATENCY)[-1]
    asked = _earlier_bits(m, o.valid & o.ready & ~o.payload.of_vector, SPAD_READ_LATENCY - 1)
    values = _elements(
        m, whitebox, _earlier_bits(m, o.valid & o.ready & o.payload.of_vector, SPAD_READ_LATENCY)
    )
    m.d.comb += [
        implies(~multiplies, queue.w_en == (summed | read)),
        implies(~multiplies & summed, queue.w_data == Cat(unit.acc.data, acc_end)),
        implies(~multiplies & read, queue.w_data == Cat(values, spad_end)),
        Assert(unit.parameters_arriving == asked[-1]),
        Assert(unit.parameters.data == spad.data),
        Assert(unit.vectors.valid == queue.r_rdy),
        Assert(unit.vectors.payload.as_value() == queue.r_data),
        Assert(queue.r_en == (unit.vectors.valid & unit.vectors.ready)),
    ]
    if (products := parts.products) is not None:
        elements = spad.data
        if unit._config.has_word_products:
            elements = Cat(values.word_select(n, 32)[:16] for n in range(unit._config.columns))
            m.d.comb += implies(multiplies, products.words == unit.command.words)
        m.d.comb += [
            Assert(products.sums_arrived == (summed & multiplies)),
            Assert(products.bytes_arrived == (read & multiplies)),
            Assert((products.sums == unit.acc.data) & (products.bytes == elements)),
            Assert((products.ends == spad_end) & (products.zero == unit.command.factor_zero)),
            *(
                [implies(multiplies, products.adds == unit.command.addend[0])]
                if unit._config.has_addends
                else []
            ),
            *(
                [implies(multiplies, products.squares == (unit.command.addend == Addend.SQUARE))]
                if unit._config.has_squares
                else []
            ),
            *(
                _sums_stay(unit, products, read & multiplies)
                if unit._config.has_result_sums
                else []
            ),
            implies(multiplies, queue.w_en == products.valid),
            implies(multiplies, queue.w_data == Cat(products.values, products.ended)),
        ]


def _sums_stay(unit: Reader, products, read) -> list:
    """Return assertions that sums are kept for the lanes if these add bytes to results."""
    keeps = unit.command.addend == Addend.RESULT
    return [
        implies(products.bytes_arrived, products.keeps == keeps),
        Assert(unit.bytes_arrive == (read & keeps)),
        Assert(unit.bytes == unit.spad.data),
    ]


def _elements(m: Module, whitebox: Whitebox, arrives: list):
    """Return the 32-bit values of a vector whose last read arrives now, and claim earlier reads.

    `arrives` has whether a read of a vector was granted one cycle ago, two cycles ago, and so on.
    """
    unit, config, columns = whitebox.unit, whitebox.unit._config, whitebox.unit._config.columns
    reads = [unit.spad.data]
    for number in range(1, 1 << config.element_size_bits):
        before = Signal.like(unit.spad.data, name=f"read_{number}_before", reset_less=True)
        with m.If(arrives[-1]):
            m.d.sync += before.eq(reads[0])
        reads.insert(0, before)
    if reads[1:]:
        m.d.comb += Assert(whitebox.register(name="before") == Cat(reads[:-1]))

    def elements(size: int):
        """Return the values of a vector whose elements have 2**`size` bytes."""
        whole, bits = Cat(reads[-(1 << size) :]), 8 << size
        parts = (whole.word_select(index, bits) for index in range(columns))
        return Cat(Cat(part, part[-1].replicate(32 - bits)) for part in parts)

    values = elements(0)
    for size in range(1, config.element_size_bits + 1):
        values = Mux(unit.numbers.size == size, elements(size), values)
    return values


def _claim_room(m: Module, whitebox: Whitebox, parts: _Parts, on_way, kinds) -> None:
    """Claim that everything in flight has room, and that bytes never precede their sums."""
    (summed, read), (from_bytes, multiplies) = on_way, kinds
    room, depth = whitebox.register(name="room"), parts.depth
    alone = sum((each & ~multiplies for each in summed), Const(0))
    flying = alone + sum(read) + sum(parts.multiplied)
    m.d.comb += [
        implies(parts.queue.w_en, parts.level < depth),
        Assert(room + parts.level + parts.unasked + flying == depth),
        implies(whitebox.register(name="asking"), room != 0),
        implies(Cat(summed).any(), ~from_bytes | multiplies),
        implies(Cat(read).any() | (parts.unasked != 0), from_bytes),
        implies(Cat(parts.multiplied).any(), multiplies),
    ]
    if (products := parts.products) is None:
        return
    sums = Signal(range(depth + 2))
    m.d.sync += sums.eq(sums + products.sums_arrived - products.bytes_arrived)
    m.d.comb += [
        implies(products.sums_arrived, sums < products._depth),
        implies(products.bytes_arrived, sums != 0),
        implies(~multiplies, sums == 0),
        implies(multiplies, sums + sum(summed) == parts.unasked + sum(read)),
        # Requests of the last two cycles have not returned.
        implies(multiplies, summed[0] <= parts.unasked),
        implies(multiplies, sum(summed) <= parts.unasked + read[0]),
    ]


def reader_proofs(units: list) -> list[Proof]:
    """Return a proof for each reader of POST among a chip's units."""
    return [
        Proof(
            kind="places",
            unit="Reader",
            statement="each position is requested once, completely, at its address; granted reads "
            "return once, in order, with the data from memory, and always have room",
            build=lambda unit=unit: reader(unit),
            depth=SPAD_READ_LATENCY + 2,
            cover_depth=20,
        )
        for unit in units
        if isinstance(unit, Reader)
    ]
