from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compiled
from matloom.schedule.memory import placing
from support.mobilenet import mobilenet


def _image():
    made = compiled(mobilenet(10, 96), PRESETS["nano"], CompileOptions())
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
