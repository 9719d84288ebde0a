import numpy as np

from matloom.arch.config import PRESETS
from matloom.arch.isa import AddressSpace, Opcode, Table
from matloom.compiler import CompileOptions, compile_network, compile_unchecked
from matloom.program import EngineStep
from matloom.program.accesses import accesses
from matloom.program.instruction_table import unpack_all
from matloom.schedule.memory import placing
from matloom.tuner.moves import apply_move, keep_weights
from matloom.tuner.study import new_study, runs_of
from support.chain import Chain
from support.mobilenet import mobilenet


def _image():
    made = compile_unchecked(mobilenet(10, 96), PRESETS["nano"], CompileOptions())
    return made.program.image


def test_repeated_groups_get_the_addresses_of_a_search(monkeypatch):
    repeat, repeated = placing._Placing._repeat, []

    def counted(self, group, *rest):
        repeated.append(len(group))
        repeat(self, group, *rest)

    monkeypatch.setattr(placing._Placing, "_repeat", counted)
    image = _image()
    assert sum(repeated) > 1000
    repeated.clear()

    class Forgetful(dict):
        def __setitem__(self, _key, _found):
            """Store nothing."""

    begin = placing._Placing.__init__

    def forgetful(self, *arguments):
        begin(self, *arguments)
        self.known = Forgetful()

    monkeypatch.setattr(placing._Placing, "__init__", forgetful)
    assert _image() == image
    assert not repeated


def test_weights_that_stay_leave_their_bytes_to_others_until_they_arrive():
    """A first call has all of the scratchpad for its first stages; outputs stay right."""
    graph, config = mobilenet(4, 48), PRESETS["nano"]
    (run,) = runs_of(new_study(graph, config, CompileOptions(tuned=False)))
    choices = apply_move(run.choices, keep_weights(run.segment, run.choices, 0.5))
    program = compile_network(graph, config, CompileOptions(choices=(choices,)), check="sample")
    (step,) = (each for each in program.steps if isinstance(each, EngineStep))
    writes = np.zeros(config.spad_bytes, int)
    for instruction in unpack_all(program.commands(step)):
        for access in accesses(instruction, config):
            if access.space[0] is AddressSpace.SPAD and access.write:
                writes[access.start : access.end] += 1
    kept = np.concatenate([writes[start:end] for start, end in program.repeat.kept])
    assert (kept >= 1).all()
    assert (kept > 1).any()


def test_tables_lie_in_no_bank_of_a_map():
    """POST reads a table in every cycle, and EXEC would be first."""
    config = PRESETS["reference"]
    chain = Chain((1, 24, 24, 16)).convolve(16).look_up().convolve(32, 3).look_up().convolve(8)
    program = compile_network(chain.graph(), config, CompileOptions(), check="none")
    (step,) = program.steps
    assert isinstance(step, EngineStep)
    instructions = list(unpack_all(program.commands(step)))
    banks = {
        each.input_addr // config.bank_bytes for each in instructions if each.opcode is Opcode.EXEC
    }
    fills = [
        each.source_addr // config.bank_bytes
        for each in instructions
        if each.opcode is Opcode.POST and each.table == Table.FILL
    ]
    assert fills
    assert banks.isdisjoint(fills)
