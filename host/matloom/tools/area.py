"""Predicts lookup tables (LUTs) and flip-flops of an engine from syntheses of other engines.

The model is linear in features of a configuration, and fitted to the syntheses in
`matloom/data/area.json` (made by `python bench/area.py`). A few syntheses say little about units
that all of them contain, so each coefficient is regularised towards a figure from the units'
reports.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matloom.arch.blocks import columns_in_tables, multiplier_blocks, own_block_rams
from matloom.arch.config import Config, load_config
from matloom.errors import UserError

#: File of the syntheses to which the model is fitted.
SAMPLES = Path(__file__).resolve().parents[1] / "data" / "area.json"

#: Predicted resources: tables before placement, and flip-flops.
RESOURCES = ("COMB", "FF")

#: FPGA family to whose syntheses the model is fitted; predictions for other families are scaled.
_FAMILY = "ecp5"

#: Expected tables and flip-flops per unit of each feature, and their relative uncertainty, from the
#: units' reports of `nano` and `small`, and docs/configuration.md.
_EXPECTED = {
    "engine": (8000.0, 6500.0, 0.5),
    "cells": (20.0, 45.0, 0.5),
    "columns": (300.0, 330.0, 0.5),
    "rows": (150.0, 120.0, 0.5),
    "lanes": (600.0, 500.0, 0.5),
    "bus bytes": (150.0, 120.0, 0.5),
    "counters": (440.0, 140.0, 0.3),
    "timestamps": (410.0, 235.0, 0.3),
    "checks": (650.0, 165.0, 0.3),
    "maximum, a column": (60.0, 35.0, 0.5),
    "windows, a cell": (12.0, 18.0, 0.5),
    "product in tables": (75.0, 29.0, 0.3),
    "wide windows, a cell": (6.0, 1.0, 0.5),
    "lookup table, a lane": (232.0, 77.0, 0.3),
    "lookup table in a block RAM, a lane": (45.0, 87.0, 0.3),
    "product in POST, a lane": (70.0, 49.0, 0.3),
    "two products in POST, a lane": (130.0, 110.0, 0.3),
}

#: Fields whose units are in no synthesis of the model, unless they are 0.
_NOT_IN_MODEL = ("softmax", "zero_points", "transposed_weights", "curves", "time_limit", "parity")

#: The value of `tables` that puts them into block RAMs.
_IN_BLOCK_RAM = 2

#: Relative error of a prediction that the fit penalises as much as a coefficient which deviates
#: from its expected value by its uncertainty.
_EXPECTED_ERROR = 0.02


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Result of the synthesis of an engine for a device family.

    `soft_columns` is the number of array columns that multiply in LUTs instead of multiplier
    blocks; `total` has the measured number of each of `RESOURCES` (LUTs, flip-flops).
    """

    config: Config
    family: str
    soft_columns: int
    total: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Area:
    """Number of LUTs (`tables`) and flip-flops of an engine, after synthesis."""

    tables: float
    flip_flops: float


def _features(config: Config, soft_columns: int) -> list[float]:
    """Return the quantities of an engine to which its area is assumed to be linear, first a 1."""
    cells = config.rows * config.columns
    return [
        1,
        cells,
        config.columns,
        config.rows,
        config.lanes,
        config.bus_bytes,
        config.counters / 2,
        config.timestamps / 64,
        config.checks,
        config.maximum * config.columns,
        config.has_windows * cells,
        soft_columns * config.rows,
        config.has_wide_windows * cells,
        (config.tables == 1) * config.lanes,
        (config.tables == _IN_BLOCK_RAM) * config.lanes,
        (config.products > 0) * config.lanes,
        (config.products > 1) * config.lanes,
    ]


def _fit_coefficients(samples: Sequence[Sample], resource: int) -> np.ndarray:
    """Return the coefficients (features,), float64, of the model of one of `RESOURCES`.

    They minimise the squares of relative errors, and of deviations from `_EXPECTED`.
    """
    rows = np.array([_features(item.config, item.soft_columns) for item in samples], float)
    found = np.array([item.total[RESOURCES[resource]] for item in samples], float)
    expected = np.array([row[resource] for row in _EXPECTED.values()])
    sure = np.array([row[2] for row in _EXPECTED.values()])
    measured = rows / found[:, None]
    drawn = np.diag(_EXPECTED_ERROR / (sure * expected))
    left = np.concatenate([measured, drawn])
    right = np.concatenate([np.ones(len(samples)), drawn @ expected])
    weights: np.ndarray = np.linalg.lstsq(left, right, rcond=None)[0]
    return weights


class AreaModel:
    """Predicts the area of `i8xi8` engines.

    Members
    -------
    samples:
        Syntheses from which it was made.
    errors:
        Relative errors of predictions, by resource: one for each sample of `_FAMILY`, predicted by
        a model fitted to the other samples.
    """

    def __init__(self, samples: Sequence[Sample]):
        self.samples = tuple(samples)
        own = [item for item in samples if item.family == _FAMILY]
        self._weights = [_fit_coefficients(own, number) for number in range(len(RESOURCES))]
        self._ratios = {item.family: self._mean_ratios(item.family) for item in samples}
        self._ratios[_FAMILY] = [1.0, 1.0]
        self.errors = {
            name: [self._leave_one_out(own, place, number) for place in range(len(own))]
            for number, name in enumerate(RESOURCES)
        }

    def _mean_ratios(self, family: str) -> list[float]:
        """Return the mean ratio of measured to predicted numbers, for each of `RESOURCES`.

        The mean is over the samples of one device family.
        """
        found = [self._ratio(item) for item in self.samples if item.family == family]
        return [statistics.fmean(each) for each in zip(*found, strict=True)]

    def _ratio(self, sample: Sample) -> list[float]:
        """Return the ratio of the measured to the predicted number, for each of `RESOURCES`."""
        row = _features(sample.config, sample.soft_columns)
        pairs = zip(RESOURCES, self._weights, strict=True)
        return [sample.total[name] / float(np.dot(row, weights)) for name, weights in pairs]

    @staticmethod
    def _leave_one_out(samples: list[Sample], left_out: int, resource: int) -> float:
        """Return the relative error for one sample, predicted by a model fitted to the others."""
        weights = _fit_coefficients([*samples[:left_out], *samples[left_out + 1 :]], resource)
        item = samples[left_out]
        predicted = float(np.dot(_features(item.config, item.soft_columns), weights))
        return predicted / item.total[RESOURCES[resource]] - 1

    def predict(self, config: Config, family: str, soft_columns: int = 0) -> Area:
        """Return the predicted area of an engine; raise UserError if no sample has this family."""
        if family not in self._ratios:
            known = ", ".join(sorted(self._ratios))
            raise UserError(
                f"areas are known only of devices of the families {known}, not {family}",
                hint="take a board with another device: matloom build --list",
            )
        row = _features(config, soft_columns)
        tables, flip_flops = (
            ratio * float(np.dot(row, weights))
            for ratio, weights in zip(self._ratios[family], self._weights, strict=True)
        )
        return Area(tables=tables, flip_flops=flip_flops)

    def worst(self) -> dict[str, float]:
        """Return the largest of the absolute `errors`, by resource."""
        return {name: max(map(abs, errors)) for name, errors in self.errors.items()}


def load_samples(path: Path = SAMPLES) -> dict[str, Any]:
    """Read a file of syntheses: `engines`, a list of `Sample`, and `placed`, figures of boards.

    The default file is the one that comes with Matloom.
    """
    stored: dict[str, Any] = json.loads(path.read_text())
    stored["engines"] = [
        Sample(
            config=load_config(item["config"]),
            family=item["family"],
            soft_columns=item["soft_columns"],
            total=item["total"],
        )
        for item in stored["engines"]
    ]
    return stored


def load_model() -> AreaModel:
    """Return the area model, fitted to the syntheses that come with Matloom."""
    return AreaModel(load_samples()["engines"])


def area_line(config: Config, device: str, family: str, capacity: Mapping[str, int]) -> str:
    """Return a line with the predicted area of an engine alone, without the rest of a board.

    Parameters
    ----------
    device, family, capacity:
        Name and family of the target, and its numbers of ``LUT4``, ``FF``, ``DSP`` and ``BRAM``.
    """
    model = load_model()
    soft = columns_in_tables(config, capacity["DSP"])
    area, worst = model.predict(config, family, soft), model.worst()
    parts = {
        "LUT4": f"tables {area.tables:,.0f} (within {worst['COMB']:.0%})",
        "FF": f"flip-flops {area.flip_flops:,.0f} (within {worst['FF']:.0%})",
        "DSP": f"multipliers {multiplier_blocks(config, soft):,.0f}",
        "BRAM": f"block RAMs {own_block_rams(config):,}",
    }
    parts_text = ", ".join(f"{part} of {capacity[name]:,}" for name, part in parts.items())
    unknown = _unknown_parts(config)
    least = f"; tables and flip-flops without those of {', '.join(unknown)}" if unknown else ""
    return f"predicted area ({device}): {parts_text}{least}"


def _unknown_parts(config: Config) -> list[str]:
    """Return the options of an engine whose area the model does not know, as ``field=value``."""
    modes = ["other modes"] if config.mac_modes != ("i8xi8",) else []
    numbers = {name: getattr(config, name) for name in _NOT_IN_MODEL}
    return modes + [f"{name}={value}" for name, value in numbers.items() if value]
