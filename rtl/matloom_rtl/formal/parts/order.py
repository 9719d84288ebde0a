"""The contract of all queues: items leave once, in order and unchanged."""

from amaranth.hdl import Assert, Cover, Module, Signal

__all__ = ["Order"]

#: Maximum number of items that a cover puts into a queue; filling the longest takes too long.
_MANY = 18


class Order:
    """Follows one arbitrary item through a queue, and claims that items keep their order.

    Claims: no more items leave than entered, no more than `places` are inside, an item is shown
    only if there is one, and the marked item is shown with its value once it is the oldest.

    Parameters
    ----------
    came:
        Whether an item enters in this cycle, and the item.
    left:
        Whether an item is shown, whether it leaves in this cycle, and the item.

    Members
    -------
    mark:
        Free input that selects the marked item when it enters, so that claims hold for all items.
    count:
        Number of items inside.
    ahead:
        Position of the marked item, 1 for the next to leave; 0 if none is inside.
    value:
        The marked item.
    """

    def __init__(self, m: Module, *, places: int, came, left):
        self.mark = Signal()
        self.count = Signal(range(places + 2))
        self.ahead = Signal(range(places + 2))
        self.value = Signal(len(came[1]))
        push, item = came
        shown, pop, shown_item = left
        with m.If(push & self.mark & (self.ahead == 0)):
            m.d.sync += [self.ahead.eq(self.count - pop + 1), self.value.eq(item)]
        with m.Elif((self.ahead != 0) & pop):
            m.d.sync += self.ahead.eq(self.ahead - 1)
        m.d.sync += self.count.eq(self.count + push - pop)
        m.d.comb += [
            Assert(self.ahead <= self.count),
            Assert(self.count <= places),
            Assert(~shown | (self.count != 0)),
            Assert(~pop | shown),
            Assert(~(shown & (self.ahead == 1)) | (shown_item == self.value)),
        ]
        # Not vacuous: many items are inside, and a marked item leaves that entered behind another.
        many = Signal()
        waited = Signal()
        with m.If(self.ahead > 1):
            m.d.sync += waited.eq(1)
        with m.If(self.count == min(places, _MANY)):
            m.d.sync += many.eq(1)
        leaves = pop & (self.ahead == 1) & self.value.any()
        m.d.comb += Cover(many & leaves & (waited | (places == 1)))
