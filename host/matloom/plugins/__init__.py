"""Plug-ins for other runtimes: bundles of a program and a model's parts, and their libraries."""

__all__: list[str] = []
