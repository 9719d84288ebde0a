"""Fills the lookup table whenever a stage needs a different one."""

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Opcode, Source, Table
from matloom.schedule.commands.dependencies import DependencyTracker
from matloom.schedule.plan import Plan
from matloom.select.context import unchanged
from matloom.select.stage import Stage

__all__ = ["Tables"]


class Tables:
    """Appends the POSTs that fill the lookup table."""

    def __init__(self, plan: Plan, config: Config, order: DependencyTracker):
        self._plan, self._config, self._order = plan, config, order
        #: What the table holds; nothing is known of it at the start.
        self._held = b""

    def looked_up(self, number: int, stage: Stage) -> dict[str, int]:
        """Fill the lookup table for a stage if needed; return the POST fields that use it."""
        if stage.table is None:
            return {}
        wanted, row_bytes = stage.table.tobytes(), self._config.table_row_bytes
        if wanted != self._held:
            self._held = wanted
            self._order.append(
                Opcode.POST,
                source=Source.SPAD,
                destination=Destination.SPAD,
                table=Table.FILL,
                width=len(wanted) // row_bytes,
                height=1,
                oc_blocks=1,
                tail=row_bytes,
                x_step=row_bytes,
                source_addr=self._plan.tables[self._plan.slots[number].stage].address,
                **unchanged(),
            )
        return {"table": Table.LOOK_UP}
