"""A network that cannot be read is an error before anything is written."""

import pytest

from matloom.cli.group import cli
from matloom.errors import UserError

COMMANDS = {
    "plugin": ("plugin", "litert", "NET", "-o", "out"),
    "profile": ("profile", "NET", "-o", "out", "--config", "nano", "--device", "fast"),
    "firmware": ("firmware", "NET", "-o", "out", "--config", "nano"),
    "compile": ("compile", "NET", "-o", "out", "--config", "nano"),
    "explore": ("explore", "--board", "ulx3s-25f", "--network", "NET", "-o", "out"),
}
FILES = {"empty.tflite": b"", "leer ü.tflite": b"", "text.tflite": b"hello", "short.mloom": b"m"}


@pytest.mark.parametrize("name", [*FILES, "folder ä", "missing ö.tflite"])
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written(command, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder ä").mkdir()
    for file, content in FILES.items():
        (tmp_path / file).write_bytes(content)
    words = [name if word == "NET" else word for word in COMMANDS[command]]
    with pytest.raises(UserError) as refused:
        cli.main(words, standalone_mode=False)
    assert name in str(refused.value)
    assert refused.value.hint
    assert not (tmp_path / "out").exists()
