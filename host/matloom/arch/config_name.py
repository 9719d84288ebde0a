"""Readable names of configurations, as `--config` accepts them, instead of a digest."""

import dataclasses

from matloom.arch.config import PRESETS, Config

#: Maximum number of changes to a preset in a name; with more, the size of the array is clearer.
_MOST_CHANGES = 4


def config_name(config: Config) -> str:
    """Return the text with the fewest changes that `load_config` reads as a configuration.

    It is the name of a preset, if necessary with changes: ``small+i8xi4+lanes=8``. It is empty if
    the configuration differs too much from every preset.
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
    """Return the changes that turn a preset into a configuration, as `load_config` reads them.

    Returns None unless the configuration's modes start with the preset's modes.
    """
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
    """Return the name of a configuration, or else the size of its array, followed by its digest."""
    name = config_name(config) or f"{config.rows}x{config.columns}"
    return f"{name} ({config.digest:08x})"


def digest_name(digest: int) -> str:
    """Return a digest in hexadecimal, after the name of the preset that it belongs to, if any."""
    names = (name for name, preset in PRESETS.items() if preset.digest == digest)
    name = next(names, "")
    return f"{name} ({digest:08x})" if name else f"{digest:08x}"
