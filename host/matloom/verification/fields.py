"""Boundary values of instruction fields, derived from the tables of the instruction set."""

import functools
import random

from matloom.arch.config import Config
from matloom.arch.isa import Field, Opcode, fields_of
from matloom.coverage.sizes import extents


@functools.cache
def body_fields(opcode: Opcode, config: Config) -> dict[str, Field]:
    """Return the fields of an opcode's instructions in a configuration, by name.

    The fields that all instructions have in common are left out.
    """
    return {item.name: item for item in fields_of(opcode, config)}


@functools.cache
def count_names(opcode: Opcode, config: Config) -> tuple[str, ...]:
    """Return the names of the fields that are counts, which are those with a minimum of 1."""
    return tuple(name for name, item in body_fields(opcode, config).items() if item.low == 1)


@functools.cache
def sized_names(opcode: Opcode, config: Config) -> frozenset[str]:
    """Return the names of fields that affect an instruction's memory ranges or its duration."""
    factors = {
        factor.removesuffix("-1").removesuffix("/2").removesuffix("%2")
        for extent in extents(opcode, config)
        for term in extent.terms
        for factor in term
    }
    return frozenset(
        name
        for name, item in body_fields(opcode, config).items()
        if item.low == 1 or (name in factors and item.width(config) > 1)
    )


def boundary_value(generator: random.Random, field: Field, config: Config) -> int:
    """Return a random value within a field's limits, at or near a boundary.

    Boundaries are both limits, powers of two, and sizes of the array, the bus and the banks. If
    only certain values are allowed, any of them is returned.
    """
    choices = field.allowed_values(config)
    if choices is not None:
        return int(generator.choice(choices))
    low, high = field.limits(config)
    carry = 1 << generator.randrange(field.bits)
    near = generator.choice((config.rows, config.columns, config.bus_bytes, config.bank_bytes))
    value = generator.choice(
        (low, low, low + 1, high, high, high - 1, carry, carry - 1, -carry, near, near + 1)
    )
    return min(max(value, low), high)
