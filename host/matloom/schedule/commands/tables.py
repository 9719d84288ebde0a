"""Fills lookup tables whenever a stage needs another one."""

from collections.abc import Sequence

from matloom.arch.config import Config
from matloom.arch.isa import Addend, Destination, Opcode, RowFunction, Source, Table
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.plan import Plan
from matloom.select.context import bias_post
from matloom.select.stage import Stage

#: For each field of POST that selects a table, the values that use and that fill the table.
_USES = {
    "table": (Table.LOOK_UP, Table.FILL),
    "softmax": (RowFunction.SOFTMAX, RowFunction.FILL),
}


class Tables:
    """Appends the POST instructions that fill lookup tables and the table of exponentials."""

    def __init__(self, plan: Plan, config: Config, tracker: DependencyTracker):
        self._plan, self._config, self._order = plan, config, tracker
        #: Contents of each table, by the field that selects it; empty while unknown.
        self._held = dict.fromkeys(_USES, b"")

    def fill_early(self, slot_index: int, stages: Sequence[Stage]) -> None:
        """Emit the POSTs that fill tables ahead of use, if any are due before a slot's tile."""
        for index in self._plan.early_fills.get(slot_index, ()):
            self._use(index, stages[index])

    def look_up(self, slot_index: int, stage: Stage, block: int = 0) -> dict[str, int]:
        """Fill a stage's lookup table if needed; return the POST fields that use it.

        If tables differ by channel, those of output block `block` are used.
        """
        return self._use(self._plan.slots[slot_index].stage, stage, block)

    def is_filled(self, stage: Stage, block: int) -> bool:
        """Return whether the lookup tables hold those of a stage's block of channels now."""
        return stage.table is not None and self._held["table"] == stage.table[block].tobytes()

    def _use(self, index: int, stage: Stage, block: int = 0) -> dict[str, int]:
        """Emit the POST that fills a stage's table if needed; return the fields that use it."""
        if stage.table is None:
            return {}
        by_channel = stage.table.ndim > 1
        wanted = (stage.table[block] if by_channel else stage.table).tobytes()
        row_bytes = self._config.table_row_bytes
        name = "softmax" if stage.is_softmax else "table"
        uses, fills = _USES[name]
        if wanted != self._held[name]:
            self._held[name] = wanted
            self._order.append(
                Opcode.POST,
                source=Source.SPAD,
                destination=Destination.SPAD,
                width=len(wanted) // row_bytes,
                height=1,
                oc_blocks=1,
                tail=row_bytes,
                x_step=row_bytes,
                source_addr=self._plan.tables[index].address + block * len(wanted),
                **bias_post(),
                **{name: Table.FILL_EACH if by_channel else fills},
            )
        return {"addend": Addend.RESULT} if stage.adds_results else {name: uses}
