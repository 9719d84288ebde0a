from matloom.schedule.image import Image


def test_equal_constants_share_their_place():
    image = Image()
    assert image.add(b"abc") == 0
    assert image.add(b"defg") == 64
    assert image.add(b"abc") == 0
    assert bytes(image)[64:] == b"defg"
    assert len(bytes(image)) == 68
