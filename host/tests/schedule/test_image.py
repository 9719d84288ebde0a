from matloom.schedule.image import ProgramImage


def test_equal_constants_share_their_place():
    image = ProgramImage()
    assert image.add(b"abc") == 0
    assert image.add(b"defg") == 64
    assert image.add(b"abc") == 0
    assert bytes(image)[64:] == b"defg"
    assert len(bytes(image)) == 68


def test_forks_grow_by_themselves():
    image = ProgramImage()
    image.add(b"first")
    fork = image.fork()
    assert fork.add(b"second") == 64
    assert image.add(b"third") == 64
    image.replace_with(fork)
    assert bytes(image)[64:] == b"second"
    assert image.add(b"first") == 0
