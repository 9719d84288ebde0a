"""The list of commands, their help, and the messages for mistakes in a command line."""

import shlex
import sys
import warnings
from types import ModuleType

import click
import pytest

from matloom import cli as front
from matloom.__main__ import main as start
from matloom.arch.config import PRESETS, load_config
from matloom.cli import complaints
from matloom.cli.complaints import error_message, show_warning
from matloom.cli.group import SECTIONS, cli
from matloom.cli.places import require_writable
from matloom.errors import UserError
from matloom.toolchain.cache import _substitute, cache_folder

COMMANDS = sorted(cli.commands)
LONGEST = 80


def output(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["matloom", *words])
    with pytest.raises(SystemExit) as ended:
        front.main()
    return ended.value.code, *capsys.readouterr()


def test_each_verb_is_in_one_section():
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == COMMANDS


def test_matloom_alone_lists_the_commands_and_the_first_step(monkeypatch, capsys):
    status, out, err = output(monkeypatch, capsys)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    for name in COMMANDS:
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.split(maxsplit=1)[1] == cli.commands[name].summary
    assert "    matloom demo  " in out
    assert [line.rstrip(":") for line in lines if line.rstrip(":") in SECTIONS] == list(SECTIONS)
    assert max(map(len, lines)) <= LONGEST


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_parse(name, monkeypatch, capsys, tmp_path):
    command = cli.commands[name]
    status, out, _ = output(monkeypatch, capsys, name, "--help")
    assert status == 0
    assert max(map(len, out.splitlines())) <= LONGEST
    assert out.split("Examples:\n")[1].split("\n") == [*(f"  {x}" for x in command.examples), ""]
    monkeypatch.chdir(tmp_path)
    for line in command.examples:
        program, first, *words = shlex.split(line)
        assert (program, first) == ("matloom", name)
        with click.Context(cli, info_name="matloom") as parent:
            command.make_context(name, words, parent=parent, resilient_parsing="--list" in words)
        # Files of an example are the reader's own; engines must exist.
        for word in words:
            if word.split("+")[0] in PRESETS:
                load_config(word)


MISTAKES = {
    "runn": ("matloom has no command 'runn'", "did you mean 'run'?"),
    "Explain": ("matloom has no command 'Explain'", "did you mean 'explain'?"),
    "simulate": ("matloom has no command 'simulate'", "did you mean 'simulate-link'?"),
    "xyz": ("matloom has no command 'xyz'", "run: matloom --help"),
    "run net --confg nano": ("matloom run has no option '--confg'", "did you mean '--config'?"),
    "explain net --memry x": (
        "matloom explain has no option '--memry'",
        "did you mean '--memory'?",
    ),
    "compare net --qqq": ("matloom compare has no option '--qqq'", "run: matloom compare --help"),
    "--versoin": ("matloom has no option '--versoin'", "did you mean '--version'?"),
    "run": ("missing argument 'NET'", "run: matloom run --help"),
    "run net": ("missing option '--input'", "run: matloom run --help"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_an_error_and_a_hint(line, monkeypatch, capsys):
    what, hint = MISTAKES[line]
    status, out, err = output(monkeypatch, capsys, *line.split())
    assert (status, out, err) == (2, "", f"error: {what}\nhint: {hint}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_refuses_an_unknown_option(name, monkeypatch, capsys):
    status, out, err = output(monkeypatch, capsys, name, "--no-such-option")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: matloom {name} has no option '--no-such-option'\nhint: ")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_the_shell_closed_is_no_error(name, monkeypatch):
    monkeypatch.setattr(f"sys.{name}", None)
    monkeypatch.setattr("sys.argv", ["matloom", "--version"])
    with pytest.raises(SystemExit) as ended:
        front.main()
    getattr(sys, name).close()
    assert ended.value.code == 0


def test_the_command_for_a_missing_folder_can_be_pasted(tmp_path):
    with pytest.raises(UserError) as caught:
        require_writable("--output", tmp_path / "Zoë's own" / "a.mloom")
    program, option, path = shlex.split(caught.value.hint)
    assert (program, option, path) == ("mkdir", "-p", str(tmp_path / "Zoë's own"))


def test_system_errors_name_operation_and_path():
    full = error_message(OSError(28, "No space left on device"))
    assert full.startswith("error: cannot use a file: no space left on device\nhint: free some")
    assert error_message(FileNotFoundError(2, "No such file or directory", "a/b")) == (
        "error: cannot use a/b: no such file or directory\nhint: check the path and its permissions"
    )
    assert error_message(PermissionError(13, "Permission denied", "a")).splitlines() == [
        "error: cannot use a: permission denied",
        "hint: choose another place, or get permission to use this one",
    ]


def test_interruption_is_silent(monkeypatch, capsys):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.commands["doctor"], "callback", interrupted)
    assert output(monkeypatch, capsys, "doctor")[:2] == (130, "")


def test_interruption_of_imports_is_silent(monkeypatch, capsys):
    class Interrupted(ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "matloom.cli", Interrupted("matloom.cli"))
    with pytest.raises(SystemExit) as ended:
        start()
    assert (ended.value.code, *capsys.readouterr()) == (130, "", "\n")


def test_warnings_look_like_errors(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(cli.commands["doctor"], "callback", lambda **_options: cache_folder())
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _substitute.cache_clear()
        _status, out, err = output(monkeypatch, capsys, "doctor")
    what, hint = err.splitlines()
    assert what.startswith(f"warning: the cache folder '{tmp_path}/file' cannot be written (")
    assert hint == "hint: set MATLOOM_CACHE to a folder that can be written"
    assert out == ""


def test_a_library_warning_keeps_its_place(monkeypatch):
    shown = []
    monkeypatch.setattr(complaints, "_show_as_python_does", lambda *told: shown.append(told))
    show_warning("deprecated", DeprecationWarning, "library.py", 7)
    assert shown == [("deprecated", DeprecationWarning, "library.py", 7, None, None)]
