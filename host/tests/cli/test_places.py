"""Files that commands write: an error names the file, and text is UTF-8 everywhere."""

import errno
from pathlib import Path

import pytest

from matloom.cli.complaints import error_message
from matloom.cli.group import cli
from matloom.cli.places import name_in_errors, write_file

_FULL = Path("/dev/full")
_QUICK = ("--config", "nano", "--check", "none")
_RUN = ("run", "digits", "--input", "random", "--device", "fast", *_QUICK)


@pytest.mark.skipif(not _FULL.exists(), reason="needs /dev/full, a disk without space")
@pytest.mark.parametrize(
    "words",
    [
        (*_RUN, "--output", str(_FULL)),
        (*_RUN, "--report", str(_FULL)),
        ("compile", "digits", *_QUICK, "-o", str(_FULL)),
        ("compare", "digits", "--report", str(_FULL)),
    ],
)
def test_a_full_disk(words):
    with pytest.raises(OSError, match="No space left") as refused:
        cli.main(list(words), standalone_mode=False)
    assert error_message(refused.value) == (
        "error: cannot use /dev/full: no space left on device\n"
        "hint: free some space, or choose another place"
    )


@pytest.mark.slow
@pytest.mark.skipif(not _FULL.exists(), reason="needs /dev/full, a disk without space")
def test_a_full_disk_for_the_chip(tmp_path):
    (tmp_path / "matloom.v").symlink_to(_FULL)
    with pytest.raises(OSError, match="No space left") as refused:
        cli.main(["generate", "--config", "nano", "-o", str(tmp_path)], standalone_mode=False)
    assert refused.value.filename == str(tmp_path)


def test_errors_that_name_another_file_keep_its_name(tmp_path):
    with pytest.raises(OSError, match="other") as refused, name_in_errors(tmp_path):
        raise OSError(errno.ENOENT, "No such file", "other")
    assert refused.value.filename == "other"


def test_text_is_utf_8(tmp_path):
    path = tmp_path / "größe.json"
    write_file(path, "größe")
    assert path.read_bytes() == "größe".encode()
    write_file(path, b"\0")
    assert path.read_bytes() == b"\0"
