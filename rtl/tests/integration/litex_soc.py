"""A LiteX SoC without a processor: RAM at 0, an engine, and a Wishbone bus on pins.

Run as a program in the folder that `matloom generate` wrote: writes ``soc.v`` to the current one.
"""

import importlib
import sys

from litex.build.generic_platform import Pins
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import wishbone

chip, origin, ram_bytes, standard = sys.argv[1:]
sys.path.insert(0, chip)


class Soc(SoCCore):
    def __init__(self):
        host = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        pins = [("sys_clk", 0, Pins(1)), ("irq", 0, Pins(1)), *host.get_ios("host")]
        platform = SimPlatform("SIM", pins)
        self.mem_map = {**SoCCore.mem_map, "csr": 0xF0000000}
        super().__init__(
            platform,
            clk_freq=100_000_000,
            cpu_type=None,
            bus_standard=standard,
            integrated_sram_size=0,
            with_uart=False,
            with_timer=False,
        )
        self.crg = CRG(platform.request("sys_clk"))
        self.add_ram("ram", origin=0, size=int(ram_bytes))
        importlib.import_module("matloom_litex").add_matloom(self, origin=int(origin))
        self.comb += host.connect_to_pads(platform.request("host"), mode="slave")
        self.bus.add_master("host", host)
        self.comb += platform.request("irq").eq(self.matloom.ev.irq)


soc = Soc()
soc.finalize()
soc.platform.get_verilog(soc, name="soc").write("soc.v")
print(*(source for source, _language, _library in soc.platform.sources))
