"""Readable names of configurations, as `--config` accepts them, instead of a digest."""

import dataclasses

from matloom.arch.config import PRESETS, Config

#: Maximum number of changes of a preset in a name; beyond, the size of the array says more.
_MOST_CHANGES = 4


def config_name(config: Config) -> str:
    """Return the text for `load_config` that names a configuration; empty if it is too long.

    It is a preset, if necessary with changes: ``small+i8xi4+lanes=8``.
    """
    found = []
    for name, preset in PRESETS.items():
        changes = _changes(preset, config)
        if changes is not None:
            found.append((len(changes), name, changes))
    if not found:
        return ""
    count, name, changes = min(found)
    return "+".join([name, *changes]) if count <= _MOST_CHANGES else ""


def _changes(preset: Config, config: Config) -> list[str] | None:
    """Return the changes that turn a preset into a configuration; None if there are none."""
    if config.mac_modes[: len(preset.mac_modes)] != preset.mac_modes:
        return None
    changes = list(config.mac_modes[len(preset.mac_modes) :])
    changes += [
        f"{item.name}={getattr(config, item.name)}"
        for item in dataclasses.fields(Config)
        if item.name != "mac_modes" and getattr(config, item.name) != getattr(preset, item.name)
    ]
    return changes


def describe_config(config: Config) -> str:
    """Return the name of a configuration, or else the size of its array, with its digest."""
    name = config_name(config) or f"{config.rows}x{config.columns}"
    return f"{name} ({config.digest:08x})"


def digest_name(digest: int) -> str:
    """Return the preset with this digest by name; otherwise the digest."""
    names = (name for name, preset in PRESETS.items() if preset.digest == digest)
    name = next(names, "")
    return f"{name} ({digest:08x})" if name else f"{digest:08x}"
