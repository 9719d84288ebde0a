"""The area model finds linear costs, and predicts syntheses that it has not seen."""

import re

import pytest

from matloom.arch.config import load_config
from matloom.tools.area import (
    RESOURCES,
    AreaModel,
    Sample,
    area_line,
    load_model,
    load_samples,
)

CONFIGS = (
    *("nano", "small", "reference+tables=0+products=0", "nano+rows=8", "small+lanes=8"),
    *("nano+counters=0+timestamps=0", "nano+checks=0", "small+columns=16", "nano+bus_bits=64"),
)


def samples(cost, family="ecp5"):
    """Return syntheses with the same costs for all resources."""
    return [
        Sample(
            config=config,
            family=family,
            soft_columns=0,
            total=dict.fromkeys(RESOURCES, cost(config)),
        )
        for config in map(load_config, CONFIGS)
    ]


def cost(config):
    return 7000 + 50 * config.rows * config.columns + 300 * config.columns + 700 * config.lanes


def test_the_model_finds_the_costs():
    model = AreaModel(samples(cost))
    config = load_config("small+rows=16+columns=16+lanes=8")
    predicted = model.predict(config, "ecp5")
    assert predicted.tables == pytest.approx(cost(config), rel=0.05)
    assert predicted.flip_flops == pytest.approx(cost(config), rel=0.05)


def test_other_families_are_in_proportion():
    other = samples(lambda config: 2 * cost(config), "gowin")[:1]
    model = AreaModel([*samples(cost), *other])
    config = load_config("small")
    doubled = 2 * model.predict(config, "ecp5").tables
    assert model.predict(config, "gowin").tables == pytest.approx(doubled, rel=0.02)
    with pytest.raises(ValueError, match="of the families ecp5, gowin, not ice40"):
        model.predict(config, "ice40")


def test_all_samples_of_a_family_count():
    twice, thrice = (
        samples(lambda config, times=times: times * cost(config), "gowin")[:1] for times in (2, 3)
    )
    config = load_config("small")
    known = AreaModel(samples(cost)).predict(config, "ecp5").tables
    for other in (twice + thrice, thrice + twice):
        model = AreaModel([*samples(cost), *other])
        assert model.predict(config, "gowin").tables == pytest.approx(2.5 * known, rel=0.02)


def test_kept_syntheses_left_out_are_predicted():
    """Tables within 8 %; predicting the mean is off by 30 % (`test_predicting_the_mean_fails`)."""
    model = load_model()
    assert len(model.errors["COMB"]) >= 6
    worst = model.worst()
    assert worst["COMB"] < 0.08
    assert worst["FF"] < 0.15


def test_predicting_the_mean_fails():
    kept = [item for item in load_samples()["engines"] if item.family == "ecp5"]
    for name in RESOURCES:
        found = [item.total[name] for item in kept]
        mean = sum(found) / len(found)
        assert max(abs(mean / each - 1) for each in found) > 0.3


def test_the_line_of_an_engine_is_near_its_synthesis():
    """Tables and flip-flops within the stated error, multipliers and block RAMs exact."""
    kept = next(item for item in load_samples()["engines"] if item.config == load_config("nano"))
    capacity = {"LUT4": 83640, "FF": 83640, "DSP": 156, "BRAM": 208}
    line = area_line(kept.config, "ecp5-85k", "ecp5", capacity)
    said = r"(\w.*?) ([\d,]+)(?: \(within (\d+)%\))? of ([\d,]+)"
    found = {name: words for name, *words in re.findall(said, line.partition(": ")[2])}
    assert list(found) == ["tables", "flip-flops", "multipliers", "block RAMs"]
    pairs = zip(found.values(), ("COMB", "FF", "DSP", "BRAM"), capacity.values(), strict=True)
    for (value, within, available), name, room in pairs:
        error = abs(int(value.replace(",", "")) / kept.total[name] - 1)
        assert error <= int(within or 0) / 100
        assert int(available.replace(",", "")) == room
    for config, parts in (
        ("nano+i8xi4", "other modes"),
        ("nano+parity=1", "parity=1"),
        ("nano+i16xi8+curves=1+softmax=2", "other modes, softmax=2, curves=1"),
    ):
        line = area_line(load_config(config), "x", "ecp5", capacity)
        assert line.endswith(f"; tables and flip-flops without those of {parts}")


@pytest.mark.parametrize("more", ["tables=1", "tables=2", "products=1", "products=2"])
def test_what_an_engine_may_have_costs_more_in_a_larger_one(more):
    """`explore` would take it for nothing otherwise."""
    model, added = load_model(), []
    for preset in ("nano", "reference+tables=0+products=0+windows=1"):
        without, engine = load_config(preset), load_config(f"{preset}+{more}")
        added.append(model.predict(engine, "ecp5").tables - model.predict(without, "ecp5").tables)
    assert 0 < added[0] < added[1]


def test_wide_windows_cost_where_there_are_rows_for_them():
    model, added = load_model(), []
    for preset in ("nano", "medium"):
        plain, wide = (load_config(f"{preset}+windows={kind}") for kind in (1, 2))
        added.append(model.predict(wide, "ecp5").tables - model.predict(plain, "ecp5").tables)
    assert added[0] == 0 < added[1]
