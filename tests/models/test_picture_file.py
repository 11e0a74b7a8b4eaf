"""A picture's file is read as people expect, and what was done to it is told."""

import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attncli.errors import ReadError
from attncli.models.picture_file import read_photo

RED = Image.new("RGB", (20, 10), (200, 0, 0))


def test_of_an_animation_the_first_frame_is_used(tmp_path: Path) -> None:
    RED.save(tmp_path / "a.gif", save_all=True, append_images=[Image.new("RGB", (20, 10), (0, 0, 200))])
    photo = read_photo(tmp_path / "a.gif")
    assert photo.notes == ("a.gif: the first of its 2 frames is used",)
    assert photo.image.getpixel((0, 0)) == (200, 0, 0)


def test_sixteen_bits_keep_their_shades(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 32896, 65535]], np.uint16)).save(tmp_path / "a.png")
    photo = read_photo(tmp_path / "a.png")
    assert [photo.image.getpixel((place, 0)) for place in range(3)] == [(0,) * 3, (128,) * 3, (255,) * 3]
    assert photo.notes == ("a.png: 16 bits a pixel reduced to 8",)


def test_cmyk_becomes_rgb_and_is_told(tmp_path: Path) -> None:
    RED.convert("CMYK").save(tmp_path / "a.jpg")
    photo = read_photo(tmp_path / "a.jpg")
    assert (photo.image.mode, photo.notes) == ("RGB", ("a.jpg: CMYK colours converted to RGB",))


def test_a_turned_camera_is_told(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    RED.save(tmp_path / "a.jpg", exif=exif)
    photo = read_photo(tmp_path / "a.jpg")
    assert photo.image.size == (10, 20) and photo.notes == ("a.jpg: turned upright, as its EXIF data says",)


@pytest.mark.parametrize("size", [(12_000, 12_000), (20_000, 20_000)])
def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "a.png"
    Image.new("1", (1, 1)).save(path)
    content = path.read_bytes()
    sides = b"".join(side.to_bytes(4, "big") for side in size)
    header = b"IHDR" + sides + content[24:29]
    path.write_bytes(content[:12] + header + zlib.crc32(header).to_bytes(4, "big") + content[33:])
    with pytest.raises(ReadError, match=r"too many pixels \(more than 89 million\)"):
        read_photo(path)


def test_floating_point_pixels_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ReadError, match=r"a\.tif: its pixels are floating-point numbers"):
        read_photo(tmp_path / "a.tif")
