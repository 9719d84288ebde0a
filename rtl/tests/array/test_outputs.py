"""Outputs: which vectors of a step are outputs, their entries and positions (decision 0002)."""

import dataclasses
import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.array.outputs import Outputs, penultimate
from matloom_rtl.testing import simulate

#: As many entries as there may be.
CONFIG = dataclasses.replace(PRESETS["nano"], acc_bytes=2**19)
WITHOUT_WINDOWS = Config(rows=8, columns=16, bus_bits=128, acc_bytes=2**21)

PLAIN = {
    "window": 1,
    "vectors": 30,
    "steps": 2,
    "blocks": 2,
    "line": 6,
    "first_output": 8,
    "out_width": 4,
    "out_height": 3,
    "out_x_skip": 0,
    "out_y_skip": 0,
    "acc_addr": 100,
}


def is_output(command, number):
    """Return whether a vector of a step is an output, by definition."""
    if not command["window"]:
        return True
    if number < command["first_output"]:
        return False
    y, x = divmod(number - command["first_output"], max(command["line"], 3))
    for place, skip, count in (
        (x, command["out_x_skip"], command["out_width"]),
        (y, command["out_y_skip"], command["out_height"]),
    ):
        quotient, rest = divmod(place, skip + 1)
        if rest or quotient >= count:
            return False
    return True


def vectors_of(command):
    """Return the inputs and the expected outputs for each vector of an instruction."""
    line = max(command["line"], 3)
    outputs = sum(is_output(command, number) for number in range(command["vectors"]))
    found = []
    for block in range(command["blocks"]):
        for step in range(command["steps"]):
            entry = command["acc_addr"] + block * outputs
            for number in range(command["vectors"]):
                first = number == 0
                grid = {
                    "window": command["window"],
                    "start": first and step == block == 0,
                    "resume": first and step > 0,
                    "first": first,
                    "penultimate": line - 2,
                    **{
                        name: command[name]
                        for name in command
                        if name.startswith(("first_", "out_"))
                    },
                }
                output = is_output(command, number)
                found.append(
                    {
                        "grid": grid,
                        "acc_addr": command["acc_addr"],
                        "place": (number % line, number < line),
                        "output": output,
                        "entry": entry if output else None,
                    }
                )
                entry += output
    return found


def random_command(generator):
    line = generator.choice((0, 2, 3, 4, 7, 20, 255))
    return {
        "window": int(generator.random() < 0.8),
        "vectors": generator.choice((4, 9, 40, 100)),
        "steps": generator.randint(1, 3),
        "blocks": generator.randint(1, 3),
        "line": line,
        "first_output": generator.choice((0, 1, 2, line + 1, 2 * line + 2, 39, 1023)),
        "out_width": generator.choice((0, 1, 2, line, 4095)),
        "out_height": generator.choice((0, 1, 2, 3, 4095)),
        "out_x_skip": generator.randint(0, 3),
        "out_y_skip": generator.randint(0, 3),
        "acc_addr": generator.randint(0, 30000),
    }


def play(commands, *, config=CONFIG, bubbles=0.0, seed=0, reset_at=None):
    """Send the vectors through the three stages, compare in each; return the cycles."""
    generator = random.Random(seed)
    dut = Outputs(config)
    reset = Signal()
    vectors = [vector for command in commands for vector in vectors_of(command)]

    async def bench(ctx):
        todo, stages, number = list(vectors), [None] * 3, 0
        while todo or any(stages):
            if number == reset_at:
                ctx.set(reset, 1)
                await ctx.tick()
                ctx.set(reset, 0)
                todo, stages = list(vectors), [None] * 3
            number += 1
            first, second, third = stages
            ctx.set(dut.valid, sum(bool(stage) << k for k, stage in enumerate(stages)))
            if first:
                ctx.set(dut.grid, first["grid"])
                place = (ctx.get(dut.position), ctx.get(dut.first_line))
                assert place == first["place"] or not first["grid"]["window"]
            if second:
                assert ctx.get(dut.output) == second["output"]
            if third:
                ctx.set(dut.acc_addr, third["acc_addr"])
                if third["output"]:
                    assert ctx.get(dut.entry) == third["entry"]
            await ctx.tick()
            bubble = not todo or generator.random() < bubbles
            stages = [None if bubble else todo.pop(0), first, second]

    simulate(ResetInserter(reset)(dut), bench, cycles=20000)


def test_a_padded_image():
    """A 5 x 5 image with lines of six: 4 x 3 windows, the first after one line and two vectors."""
    made = [number for number in range(30) if is_output(PLAIN, number)]
    assert made == [8, 9, 10, 11, 14, 15, 16, 17, 20, 21, 22, 23]
    play([PLAIN, PLAIN | {"window": 0}, PLAIN | {"out_x_skip": 1, "out_y_skip": 1}])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bubbles", [0, 0.4, 0.8])
def test_random_instructions_back_to_back(seed, bubbles):
    generator = random.Random(seed + int(100 * bubbles))
    commands = [random_command(generator) for _ in range(12)]
    play(commands, bubbles=bubbles, seed=seed)


def test_entries_where_there_are_no_windows(seed):
    dense = [random_command(random.Random(seed + k)) | {"window": 0} for k in range(5)]
    play(dense, config=WITHOUT_WINDOWS, bubbles=0.3)


def test_reset_midway():
    play([PLAIN, PLAIN], reset_at=45)


def test_the_vector_before_the_last_of_every_line():
    """Lines have at least three vectors, numbered from 0."""
    line = Signal(8)
    found = Signal(8)
    m = Module()
    m.d.comb += found.eq(penultimate(line))

    async def check(ctx):
        for length in range(256):
            ctx.set(line, length)
            assert ctx.get(found) == max(length, 3) - 2

    simulate(m, check, cycles=1)
