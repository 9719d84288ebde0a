"""Reserved words that signals must not be named, also for VHDL and SystemVerilog tools."""

from amaranth.hdl import Fragment, Signal

__all__ = ["RESERVED", "rename_reserved"]

_WORDS = """
abs accept_on access after alias all always always_comb always_ff always_latch and architecture
array assert assign assume attribute automatic before begin bind bins binsof bit block body break
buf buffer bufif0 bufif1 bus byte case casex casez cell chandle checker class clocking cmos
component config configuration const constant constraint context continue cover covergroup
coverpoint cross deassign default defparam design disable disconnect dist do downto edge else elsif
end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface
endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask
entity enum event eventually exit expect export extends extern fairness file final first_match for
force foreach forever fork forkjoin function generate generic genvar global group guarded highz0
highz1 if iff ifnone ignore_bins illegal_bins implements implies import impure in incdir include
inertial initial inout input inside instance int integer interconnect interface intersect is join
join_any join_none label large let liblist library linkage literal local localparam logic longint
loop macromodule map matches medium mod modport module nand negedge nettype new next nexttime nmos
nor noshowcancelled not notif0 notif1 null of on open or others out output package packed parameter
pmos port posedge postponed primitive priority procedure process program property protected pull0
pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence
range rcmos real realtime record ref reg register reject_on release rem repeat report restrict
return rnmos rol ror rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime s_until
s_until_with scalared select sequence severity shared shortint shortreal showcancelled signal signed
sla sll small soft solve specify specparam sra srl static string strong strong0 strong1 struct
subtype super supply0 supply1 sync_accept_on sync_reject_on table tagged task then this throughout
time timeprecision timeunit to tran tranif0 tranif1 transport tri tri0 tri1 triand trior trireg type
typedef unaffected union unique unique0 units unsigned until until_with untyped use uwire var
variable vectored virtual vmode void vprop vunit wait wait_order wand weak weak0 weak1 when while
wildcard wire with within wor xnor xor
"""

#: Keywords of IEEE 1800-2017 and of IEEE 1076-2008 (which ignores case).
RESERVED = frozenset(_WORDS.split())


def rename_reserved(fragment: Fragment) -> None:
    """Append `_` to the names of signals and modules of a design that are reserved words.

    The fragment is changed in place.
    """
    # Amaranth has no public interface for the contents of an elaborated unit.
    for statements in fragment.statements.values():
        for statement in statements:
            # A clock's is the domain's, and no signal yet.
            for signal in statement._lhs_signals():
                if isinstance(signal, Signal) and signal.name.lower() in RESERVED:
                    signal.name += "_"
    parts = fragment.subfragments
    for index, (child, name, place) in enumerate(parts):
        rename_reserved(child)
        # A memory is named like its submodule.
        if name in RESERVED:
            parts[index] = (child, f"{name}_", place)
