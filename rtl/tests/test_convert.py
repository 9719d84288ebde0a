"""Conversion of hardware to Verilog: what an exception leaves behind."""

import gc
import warnings

import pytest
from amaranth import Elaboratable, Module, UnusedElaboratable
from amaranth.lib.wiring import Component

from matloom_rtl.convert import to_rtlil, to_verilog


class _Unused(Elaboratable):
    def elaborate(self, platform):
        return Module()


class _Interrupted(Component):
    """A component during whose elaboration the user presses Ctrl-C."""

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = _Unused()
        raise KeyboardInterrupt


@pytest.mark.parametrize("convert", [to_verilog, to_rtlil])
def test_an_interruption_leaves_no_warnings(convert):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnusedElaboratable)
        with pytest.raises(KeyboardInterrupt):
            convert(_Interrupted(), "top")
        gc.collect()
    assert [str(each.message) for each in caught] == []
