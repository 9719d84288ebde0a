"""Preprocessing as text, in program files and in sessions."""

from dataclasses import replace

import numpy as np
import pytest

import matloom
from matloom.data.digits import NETWORK
from matloom.pre import Image, attach, dumps, loads, prepare_inputs
from matloom.program import PreprocessInfo, Program, ProgramError
from matloom.tools.explain import explain

GREY = Image(size=(8, 8), channels="grey", crop="centre", resize="area", scale=16 / 255)


@pytest.fixture(scope="module")
def program():
    return matloom.compile(NETWORK, "nano", check="none")


@pytest.mark.parametrize("stage", [GREY, Image(size=[3, 4], mean=[1, 2, 3], crop=[0, 1, 2, 3])])
def test_text_equals_its_contents(stage):
    assert loads(dumps(stage)) == stage
    assert hash(loads(dumps(stage))) == hash(stage)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "preprocessing must be JSON"),
        ("[]", "must be an object such as"),
        ('{"Imgae": {}}', "preprocessing must be one of Image.*'Imgae'"),
        ('{"Image": 3}', "Image must be an object of size, "),
        ('{"Image": {"sice": 3}}', "a field of Image must be one of .*'sice'"),
        ('{"Image": {}}', "Image must have a value for size"),
        ('{"Image": {"size": [0, 1]}}', "size must be"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message) as refused:
        loads(text)
    assert refused.value.hint


def test_sessions_take_raw_data_and_files_keep_how(program, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (3, 30, 20, 1), np.uint8)
    with matloom.load(program, device="fast", preprocess=GREY) as session:
        (info,) = session.program.inputs
        ready = np.stack([GREY.prepare(image, info) for image in images])
        made = session.run(images)
        session.program.save(tmp_path / "net.mloom")
        assert np.array_equal(session.run(list(images)), made)
        assert np.array_equal(session.run({"image": images[1]})["probabilities"], made[1:2])
        assert set(session.run(images, outputs="all")) > {"logits"}
    with matloom.load(program, device="fast") as session:
        assert np.array_equal(session.run(ready), made)
    with matloom.load(tmp_path / "net.mloom", device="model") as session:
        assert np.array_equal(session.run(images), made)


def test_explain_shows_preprocessing(program):
    lines = [line for line in explain(attach(program, GREY)) if isinstance(line, str)]
    (line,) = [line for line in lines if line.startswith("before image, on the host: ")]
    assert "crop to the centre, resize (area) to 8 x 8, grey; " in line
    assert not [line for line in explain(program) if "on the host: crop" in str(line)]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (
            Image(size=(8, 8)),
            r"must make the shape of input 'image', \(1, 8, 8, 1\), not \(1, 8, 8",
        ),
        ({"imge": GREY}, "an input to preprocess must be one of image, not 'imge'"),
    ],
)
def test_misfits_are_refused(program, stage, message):
    with pytest.raises(ValueError, match=message):
        attach(program, stage)


def test_an_empty_list_is_refused(program):
    with pytest.raises(ValueError, match="must have at least one sample"):
        prepare_inputs(attach(program, GREY), {"image": []})


def test_damaged_definitions_are_refused(program):
    good = PreprocessInfo(tensor="image", definition=dumps(GREY))
    for bad in ((replace(good, tensor="logits"),), (good, good)):
        with pytest.raises(ProgramError, match="each preprocessing must have a different input"):
            replace(program, preprocessing=bad).to_bytes()
    wrong = replace(program, preprocessing=(replace(good, definition="{}"),))
    assert Program.from_bytes(wrong.to_bytes()) == wrong
    with pytest.raises(ValueError, match="must be an object such as"):
        matloom.load(wrong, device="fast")


def test_programs_without_it_have_no_such_section(program):
    assert len(program.to_bytes()) < len(attach(program, GREY).to_bytes())
    assert attach(program, None) is program
