"""Compiles the end addresses of extents, as the instruction set's tables define them."""

from collections.abc import Callable
from functools import cache
from typing import Any

#: Function of a field lookup (``get(name, default)``) and a configuration that returns the first
#: address after an extent; None if the extent does not apply.
EndFunction = Callable[[Callable[[str, int], int], Any], int | None]


def _factor_expression(factor: str) -> str:
    """Return Python source that computes a factor from `get` and `config`."""
    if factor.startswith("@"):
        return f"config.{factor[1:]}"
    if factor.isdigit():
        return factor
    for ending, operation in (("-1", " - 1"), ("/2", " // 2"), ("%2", " % 2")):
        if factor.endswith(ending):
            return f"(get({factor.removesuffix(ending)!r}, 0){operation})"
    return f"get({factor!r}, 0)"


@cache
def end_function(
    base: str, terms: tuple[tuple[str, ...], ...], only: tuple[tuple[str, tuple[int, ...]], ...]
) -> EndFunction:
    """Return a function that computes the end address of an extent from its members (`isa.Extent`).

    The parameters are the attributes of the extent. The function is compiled, not interpreted,
    because it is called several times for each instruction of a program.
    """
    end = " + ".join(
        (f"get({base!r}, 0)", *(" * ".join(map(_factor_expression, term)) for term in terms))
    )
    applies = " and ".join(
        f"get({name!r}, 0) in {tuple(map(int, allowed))}" for name, allowed in only
    )
    condition = f" if {applies} else None" if only else ""
    # The text comes only from the tables in `isa`.
    function: EndFunction = eval(f"lambda get, config: {end}{condition}")
    return function
