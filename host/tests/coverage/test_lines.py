"""Verilator's counts: read, merged, excluded, summed by unit."""

import pytest

from matloom.coverage.lines import by_unit, read_counts

VERILOG = """\
module \\matloom.core.post.lanes (a, clk);
  reg \\$auto$dump_module$1  = 0;
  assign size = 3'h2;
  always @* begin
    if (\\$auto$dump_module$1 ) begin end
    if (a) begin
      b = 1'h1;
    end
    if (|issue) matloom_probe(probe_cycle, 0, 32'(issue));
  end
endmodule
module \\matloom.core.post (a, clk);
endmodule
"""


def record(count, **keys):
    fields = "".join(f"\1{name}\2{value}" for name, value in keys.items())
    return f"C '{fields}' {count}\n"


def line(count, spans, module="matloom.core.post.lanes"):
    return record(count, f="x.v", l="1", t="branch", page=f"v_branch/{module}", o="if", S=spans)


def toggle(count, signal, module="matloom.core.post.lanes"):
    return record(count, f="x.v", l="1", t="toggle", page=f"v_toggle/{module}", o=signal)


@pytest.fixture
def units(tmp_path):
    def read(*records):
        path = tmp_path / "coverage.dat"
        path.write_text("# SystemC::Coverage-3\n" + "".join(records))
        return by_unit(read_counts(path), VERILOG)

    return read


def test_a_line_is_reached_where_any_block_with_it_is(units):
    post = units(line(0, "6-7"), line(3, "7"), line(0, ""))["post"]
    assert (post.lines, post.lines_reached) == (2, 1)
    assert post.missing_lines == ["if (a) begin"]


def test_both_directions_of_each_bit_are_toggles(units):
    post = units(toggle(1, "b[0]:0->1"), toggle(0, "b[0]:1->0"), toggle(0, "b[1]:0->1"))["post"]
    assert (post.toggles, post.toggles_reached) == (3, 1)
    assert post.missing_toggles == {"matloom.core.post.lanes b": 2}


def test_exclusions_are_counted_by_reason(units):
    post = units(
        line(0, "5"),
        line(0, "9"),
        toggle(0, "size[1]:0->1"),
        toggle(0, "probe_cycle[60]:0->1"),
    )["post"]
    assert post.excluded == {"idiom": 1, "probe": 2, "constant": 1}
    assert post.lines == post.toggles == 0
    # Of another module it is another signal.
    post = units(toggle(0, "size[1]:0->1", "matloom.core.post"))["post"]
    assert (post.toggles, post.excluded) == (1, {})


def test_names_are_those_of_the_verilog(units):
    assert units(toggle(0, "axi___05Faw:0->1"))["post"].missing_toggles == {
        "matloom.core.post.lanes axi__aw": 1
    }


def test_equal_records_are_summed(units):
    post = units(toggle(0, "b:0->1"), toggle(2, "b:0->1"))["post"]
    assert (post.toggles, post.toggles_reached) == (1, 1)


@pytest.mark.parametrize("text", ["", "C '' 1\n", "# SystemC::Coverage-3\nnonsense\n"])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "other.dat"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.dat' (is not a coverage|has a line)"):
        read_counts(path)
