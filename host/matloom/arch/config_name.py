"""Names of configurations, for people: what `--config` takes, instead of a digest."""

import dataclasses

from matloom.arch.config import PRESETS, Config

__all__ = ["config_name", "described", "digest_name"]

#: Changes of a preset beyond which a name says less than the size of the array.
_MOST_CHANGES = 4


def config_name(config: Config) -> str:
    """Return what `load_config` takes for a configuration; empty where that is long.

    A preset, or the preset with the fewest changes: ``small+i8xi4+lanes=8``.
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
    """Return what makes one configuration of another; None where no changes can."""
    if config.mac_modes[: len(preset.mac_modes)] != preset.mac_modes:
        return None
    changes = list(config.mac_modes[len(preset.mac_modes) :])
    changes += [
        f"{item.name}={getattr(config, item.name)}"
        for item in dataclasses.fields(Config)
        if item.name != "mac_modes" and getattr(config, item.name) != getattr(preset, item.name)
    ]
    return changes


def described(config: Config) -> str:
    """Return a configuration by its name, else by the size of its array, with its digest."""
    name = config_name(config) or f"{config.rows}x{config.columns}"
    return f"{name} ({config.digest:08x})"


def digest_name(digest: int) -> str:
    """Return what is known of a configuration by its digest alone: its name if a preset."""
    names = (name for name, preset in PRESETS.items() if preset.digest == digest)
    name = next(names, "")
    return f"{name} ({digest:08x})" if name else f"{digest:08x}"
