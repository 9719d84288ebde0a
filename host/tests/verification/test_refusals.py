"""Refused instructions: varied cases, a correct chip passes, and faulty checks are noticed."""

import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import Fault
from matloom.arch.instruction import unpack
from matloom.arch.isa import FORMATS, Opcode
from matloom.device.rtl import RtlTransport
from matloom.verification import refusals
from matloom.verification.pair import MEMORY_BYTES, MismatchError, Pair
from matloom.verification.refusals import (
    altered_instructions,
    check_refusals,
    expected_fault,
    wide_products,
)

NANO = PRESETS["nano"]


@pytest.fixture(scope="module")
def pair():
    chip = RtlTransport(NANO, MEMORY_BYTES, check_bus=True)
    yield Pair.start(chip, NANO)
    chip.close()


def cases(seed):
    return list(altered_instructions(random.Random(seed), NANO))


def test_every_bit_of_every_opcode_is_changed():
    """Of two cases that differ in one bit, one is the original instruction."""
    found = cases(1)
    assert {each[0] & 15 for each in found} == set(FORMATS)
    for opcode in FORMATS:
        words = [int.from_bytes(each, "little") for each in found if each[0] & 15 == opcode]
        bits = 8 * len(next(each for each in found if each[0] & 15 == opcode)) - 8 * 16
        differing = {word ^ words[0] for word in words}
        # Of two that have one bit inverted each, two bits differ: the first one and another.
        assert {1 << 4 ^ 1 << bit for bit in range(5, bits)} <= differing


def test_causes_are_of_every_kind_that_one_instruction_can_have():
    causes = {record[0] for record in (expected_fault(NANO, each) for each in cases(2)) if record}
    assert causes >= {
        *(Fault.ILLEGAL_FIELD, Fault.READ_ONLY_REGION, Fault.DEPENDENCY),
        *(Fault.DRAM_RANGE, Fault.SPAD_RANGE, Fault.ACC_RANGE),
    }


@pytest.mark.parametrize("seed", range(20))
def test_products_exceed_a_word_and_their_low_bits_do_not_show_it(seed):
    for commands in wide_products(random.Random(seed), NANO):
        made, _offset = unpack(commands, 0)
        if made.opcode is Opcode.EXEC:
            product, least, room = made.oc_blocks * made.height * made.width, Fault.ACC_RANGE, 1
        else:
            product = (made.rows - 1) * made.dram_row_step + (
                made.planes - 1
            ) * made.dram_plane_step
            least, room = Fault.DRAM_RANGE, 8192
        assert product >= 1 << 32
        assert product % (1 << 32) < room
        assert expected_fault(NANO, commands)[0] is least


def test_the_chip_refuses_what_the_model_refuses(pair):
    assert check_refusals(pair, 3, 150) == {"refusals": 150}


def test_a_record_with_another_address_is_noticed(pair, monkeypatch):
    def other(config, commands):
        record = expected_fault(config, commands)
        return record and (*record[:3], record[3] ^ 1)

    monkeypatch.setattr(refusals, "expected_fault", other)
    with pytest.raises(MismatchError, match="on the chip"):
        check_refusals(pair, 4, 20)


def test_a_missed_refusal_is_noticed(pair, monkeypatch):
    """As if a check looked at fewer bits."""
    monkeypatch.setattr(
        refusals, "expected_fault", lambda config, commands: (Fault.ILLEGAL_FIELD, Opcode.END, 0, 0)
    )
    monkeypatch.setattr(
        refusals, "wide_products", lambda *_given: [bytes([Opcode.END]) + bytes(15)]
    )
    with pytest.raises(MismatchError, match="ends with None on the chip"):
        check_refusals(pair, 5, 20)
