"""Writing bitstreams: calls of openFPGALoader, and the message if it is missing."""

import pytest

from matloom_rtl.board import programmer
from matloom_rtl.board.definition import BoardError, load_board


@pytest.fixture
def bitstream(tmp_path):
    path = tmp_path / "it.bit"
    path.write_bytes(b"bits")
    return path


@pytest.fixture
def loader(monkeypatch):
    monkeypatch.setattr(programmer.shutil, "which", lambda name: f"/bin/{name}")


@pytest.mark.usefixtures("loader")
def test_the_call(bitstream):
    board = load_board("ulx3s-85f")
    call = programmer.programmer_command(board, bitstream)
    assert call == ["/bin/openFPGALoader", "--board", "ulx3s", str(bitstream)]
    call = programmer.programmer_command(board, bitstream, flash=True)
    assert call == ["/bin/openFPGALoader", "--board", "ulx3s", "--write-flash", str(bitstream)]


def test_no_loader(bitstream, monkeypatch):
    monkeypatch.setattr(programmer.shutil, "which", lambda name: None)
    with pytest.raises(BoardError, match="openFPGALoader is not installed"):
        programmer.programmer_command(load_board("ulx3s-85f"), bitstream)


@pytest.mark.usefixtures("loader")
def test_mistakes(bitstream, tmp_path):
    board = load_board("ulx3s-85f")
    with pytest.raises(BoardError, match=r"cannot read .*none\.bit: no such file"):
        programmer.programmer_command(board, tmp_path / "none.bit")
    with pytest.raises(BoardError, match=r"for tang-nano-20k must end in .fs, not '.bit'"):
        programmer.programmer_command(load_board("tang-nano-20k"), bitstream)
    with pytest.raises(BoardError, match="colorlight-5a75b has no programmer of its own"):
        programmer.programmer_command(load_board("colorlight-5a75b"), bitstream)
