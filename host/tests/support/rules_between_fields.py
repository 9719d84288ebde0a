"""POSTs whose fields are legal one by one, and exclude each other in all ways."""

import itertools

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, Opcode

__all__ = ["posts_of_excluding_fields"]

#: Fields that exclude each other.
_EXCLUDING = frozenset(
    ("source", "destination", "table", "product", "addend", "softmax", "pool", "words", "curve")
)


def posts_of_excluding_fields(config: Config) -> list[Instruction]:
    """Return a POST for all values of every three fields that exclude each other."""
    fields = [each for each in FORMATS[Opcode.POST].all_fields if each.name in _EXCLUDING]
    values = {
        each.name: each.allowed_values(config) or (0, each.limits(config)[1]) for each in fields
    }
    sizes = dict.fromkeys(("width", "height", "oc_blocks", "tail"), 1)
    return [
        Instruction(Opcode.POST, sizes | dict(zip(names, chosen, strict=True)))
        for names in itertools.combinations(values, 3)
        for chosen in itertools.product(*(values[name] for name in names))
    ]
