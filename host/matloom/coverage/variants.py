"""The modes of each opcode, and the fields that have an effect in an instruction."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from matloom.arch.config import Config
from matloom.arch.isa import (
    BYTES_ONLY,
    FORMATS,
    Destination,
    Field,
    Opcode,
    Region,
    Source,
    fields_of,
    post_element_bytes,
)
from matloom.arch.modes import MAC_MODES
from matloom.arch.numerics import Rounding

#: An inclusive range of values; an upper end of None means no limit.
_Range = tuple[int, int | None]
_SET, _UNSET, _SEVERAL = (1, 1), (0, 0), (2, None)

#: Conditions under which fields have an effect, by opcode and field: ranges of other fields.
_EFFECT_CONDITIONS: dict[Opcode, dict[str, dict[str, _Range]]] = {
    Opcode.LOAD: {
        "fill_value": {"fill": _SET},
        "dram_row_step": {"fill": _UNSET},
        "dram_plane_step": {"fill": _UNSET},
        "spad_row_step": {"rows": _SEVERAL},
        "spad_plane_step": {"planes": _SEVERAL},
    },
    Opcode.STORE: {
        "spad_row_step": {"rows": _SEVERAL},
        "spad_plane_step": {"planes": _SEVERAL},
    },
    Opcode.EXEC: {
        "input_pitch": {"input_rows": _SEVERAL},
        "x_step": {"width": _SEVERAL},
        "y_step": {"height": _SEVERAL},
        "kernel_row_step": {"kernel_rows": _SEVERAL},
        "kernel_col_step": {"kernel_cols": _SEVERAL},
        "oc_step": {"oc_blocks": _SEVERAL},
        **{name: {"window": _SET} for name in ("line", "first_output", "out_width")},
        **{name: {"window": _SET} for name in ("out_height", "out_x_skip", "out_y_skip")},
        "window_shape": {"window": _SET},
    },
    Opcode.POST: {
        "bias": {"channel_bias": _UNSET},
        "multiplier": {"channel_scale": _UNSET},
        "shift": {"channel_scale": _UNSET},
        "x_step": {"width": _SEVERAL},
        "source_pitch": {"height": _SEVERAL},
        "dest_pitch": {"height": _SEVERAL},
        "low_byte": {"words": _SET},
        "high_byte": {"words": _SET},
        "factor_zero": {"product": _SET},
        "curve": {"words": _SET},
    },
    Opcode.END: {},
}


#: Fields without effect under FLOAT, because the fields that they depend on must be 0 there.
_UNUSED_UNDER_FLOAT = ("low_byte", "high_byte", "factor_zero")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An opcode in one of its modes, such as EXEC with a number format.

    Members
    -------
    name:
        Opcode and mode, as `variant_of` names them.
    fixed:
        Values of the fields that select the mode.
    """

    opcode: Opcode
    name: str
    fixed: Mapping[str, int]


@functools.cache
def body_fields(opcode: Opcode, config: Config) -> dict[str, Field]:
    """Return the fields of an opcode's instructions in a configuration, by name.

    The fields that all instructions have in common are left out.
    """
    return {item.name: item for item in fields_of(opcode, config)}


@functools.cache
def base_fields(opcode: Opcode) -> tuple[str, ...]:
    """Return the names of the fields that hold the start addresses of memory ranges."""
    return tuple(dict.fromkeys(extent.base for extent in FORMATS[opcode].extents))


def effect_conditions(opcode: Opcode, name: str) -> Mapping[str, _Range]:
    """Return the ranges of other fields, by name, in which a field has an effect."""
    return _EFFECT_CONDITIONS[opcode].get(name, {})


def _names_of_set_flags(values: Mapping[str, int], *names: str) -> str:
    """Return the names of the fields that are not zero, each after a space."""
    return "".join(f" {name}" for name in names if values.get(name))


def _load_mode(values: Mapping[str, int], config: Config) -> str:
    """Return the mode of a LOAD: whether it reads or fills, and its `spread` if it may have one."""
    source = "fill" if values.get("fill") else "read"
    return source if not config.last_spread else f"{source} spread {values.get('spread', 0)}"


def _exec_mode(values: Mapping[str, int]) -> str:
    """Return the mode of an EXEC: number format, and the flags and window shape that matter.

    `paired` matters only with a window, and `window_shape` only with an unpaired window.
    """
    form = _names_of_set_flags(values, "paired") if values.get("window") else ""
    if values.get("window") and values.get("window_shape") and not form:
        form = f" shape {values['window_shape']}"
    return (
        MAC_MODES[values.get("mode", 0)] + _names_of_set_flags(values, "maximum", "window") + form
    )


def _post_mode(values: Mapping[str, int]) -> str:
    """Return the mode of a POST: its source and its destination."""
    source, destination = values.get("source", 0), values.get("destination", 0)
    return f"{Source(source).name} to {Destination(destination).name}"


def variant_of(opcode: Opcode, values: Mapping[str, int], config: Config) -> str:
    """Return the name of an instruction's opcode and mode."""
    mode = ""
    if opcode is Opcode.LOAD:
        mode = _load_mode(values, config)
    elif opcode is Opcode.EXEC:
        mode = _exec_mode(values)
    elif opcode is Opcode.POST:
        mode = f"{_post_mode(values)} {Rounding(values.get('rounding', 0)).name}"
    return f"{opcode.name} {mode}".rstrip()


def flight_kind(opcode: Opcode, values: Mapping[str, int]) -> str:
    """Return an instruction's opcode and mode, as points of pairs of instructions name them.

    It leaves out the `spread` of a LOAD and the rounding of a POST, which `variant_of` includes.
    """
    mode = ""
    if opcode is Opcode.LOAD:
        mode = "fill" if values.get("fill") else "read"
    elif opcode is Opcode.EXEC:
        mode = _exec_mode(values)
    elif opcode is Opcode.POST:
        mode = _post_mode(values)
    return f"{opcode.name} {mode}".rstrip()


def _exec_choices(config: Config) -> list[dict[str, int]]:
    """Return the field values that select each mode of EXEC in a configuration."""
    found = []
    for mode in config.mode_numbers:
        largest = range(1 + bool(config.maximum and not mode))
        shapes = [{}, *([{"window": 1}] if config.has_windows and not mode else [])]
        shapes += [{"window": 1, "paired": 1}] if config.has_paired_windows and not mode else []
        wide = range(1, len(config.window_shapes)) if not mode else ()
        shapes += [{"window": 1, "window_shape": shape} for shape in wide]
        for maximum, shape in product(largest, shapes):
            fixed = {"mode": mode, "window": 0, **shape}
            if "maximum" in body_fields(Opcode.EXEC, config):
                fixed["maximum"] = maximum
            if fixed["window"] and "paired" in body_fields(Opcode.EXEC, config):
                fixed.setdefault("paired", 0)
            if fixed["window"] and not fixed.get("paired") and wide:
                fixed.setdefault("window_shape", 0)
            found.append(fixed)
    return found


def _mode_choices(opcode: Opcode, config: Config) -> list[dict[str, int]]:
    """Return, for every mode of an opcode, the values of the fields that select it."""
    if opcode is Opcode.LOAD:
        return [
            {"fill": fill, "spread": spread}
            for fill, spread in product((0, 1), range(config.last_spread + 1))
        ]
    if opcode is Opcode.EXEC:
        return _exec_choices(config)
    if opcode is Opcode.POST:
        return [
            {"source": source, "destination": destination, "rounding": rounding}
            for source, destination, rounding in product(Source, Destination, config.roundings)
        ]
    return [{}]


@functools.cache
def variants(opcode: Opcode, config: Config) -> tuple[Variant, ...]:
    """Return every mode of an opcode that a configuration has."""
    return tuple(
        Variant(opcode=opcode, name=variant_of(opcode, fixed, config), fixed=fixed)
        for fixed in _mode_choices(opcode, config)
    )


def _smallest_element(variant: Variant, config: Config) -> int:
    """Return the smallest size in bytes that elements of a POST may have in the scratchpad."""
    return min(
        post_element_bytes({**variant.fixed, "pre_shift": each}) for each in config.post_formats
    )


def written_steps(variant: Variant, config: Config) -> dict[str, int]:
    """Return the fields that hold distances between written elements, with their smallest values.

    With smaller steps, the elements would overlap.
    """
    if variant.opcode is Opcode.LOAD:
        return {"spad_row_step": 1, "spad_plane_step": 1}
    if variant.opcode is Opcode.STORE:
        return {"dram_row_step": 1, "dram_plane_step": 1}
    if variant.opcode is Opcode.POST and variant.fixed["destination"] == Destination.SPAD:
        size = _smallest_element(variant, config)
        return {"x_step": size, "dest_pitch": size}
    return {}


def smallest_instruction(variant: Variant, config: Config) -> dict[str, int]:
    """Return the field values, without base addresses, of the smallest instruction of a mode."""
    fields = body_fields(variant.opcode, config)
    values = {
        name: max(item.limits(config)[0], 0)
        for name, item in fields.items()
        if name not in base_fields(variant.opcode)
    }
    values |= written_steps(variant, config) | dict(variant.fixed)
    if variant.opcode is Opcode.EXEC:
        values["weights_fixed"] = 1
    if variant.opcode is Opcode.STORE:
        values["region"] = Region.OUTPUT
    if variant.opcode is Opcode.LOAD:
        values["region"] = Region.INPUT
    if variant.fixed.get("rounding") == Rounding.FLOAT:
        size = _smallest_element(variant, config)
        values["pre_shift"] = next(
            each
            for each in config.post_formats
            if post_element_bytes({**values, "pre_shift": each}) == size
        )
    return values


def why_single_value(variant: Variant, field: Field, config: Config) -> str | None:
    """Return why a field has one legal value, or no effect, in a mode; None if neither holds."""
    fixed = variant.fixed
    if field.plain and fixed.get("mode"):
        return f"must be 0 in mode {MAC_MODES[fixed['mode']]}"
    if field.name == "blocks" and fixed.get("window") and fixed.get("paired"):
        return "must be 1 in a paired window"
    if field.name == "window_shape" and fixed.get("paired"):
        return "irrelevant in a paired window"
    if fixed.get("rounding") == Rounding.FLOAT and field.name in ("words", "curve", *BYTES_ONLY):
        return "must be 0 under FLOAT"
    if fixed.get("rounding") == Rounding.FLOAT and field.name in _UNUSED_UNDER_FLOAT:
        return "irrelevant under FLOAT"
    needed = fixed.get("source"), fixed.get("destination")
    if field.name == "softmax" and needed != (Source.SPAD, Destination.SPAD):
        return "must be 0 unless it reads and writes bytes of the scratchpad"
    if field.name == "curve" and fixed.get("destination") != Destination.SPAD:
        return "must be 0 unless it writes words of the scratchpad"
    if field.name == "pool" and needed != (Source.ACC, Destination.SPAD):
        return "must be 0 unless it writes bytes of sums"
    low, high = field.limits(config)
    return f"has one legal value, {low}" if low == high else None
