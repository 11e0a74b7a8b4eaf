"""A sound file is decoded, mixed to one channel and brought to another rate, or refused in one line."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from sounds import tone, write_wav

from attncli.errors import ReadError
from attncli.models import sound_files
from attncli.models.sound_files import Sound, read_sound


def test_channels_become_their_mean_and_that_is_told(tmp_path: Path) -> None:
    two = np.stack([tone(0.1, 8_000), np.zeros(800)], axis=1)
    sound = read_sound(write_wav(tmp_path / "a.wav", two, 8_000))
    assert (sound.rate, sound.seconds, sound.notes) == (8_000, 0.1, ("its 2 channels were mixed to one",))
    np.testing.assert_allclose(sound.samples, two.mean(axis=1), atol=2**-15)


@pytest.mark.parametrize(
    ("name", "form", "tolerance"),
    [("a.mp3", None, 0.05), ("a.flac", None, 1e-4), ("a.ogg", None, 0.05), ("a.wav", "FLOAT", 1e-6)],
)
def test_other_forms_are_read_by_soundfile(
    tmp_path: Path, name: str, form: str | None, tolerance: float
) -> None:
    soundfile.write(tmp_path / name, tone(1.0, 16_000), 16_000, subtype=form)
    sound = read_sound(tmp_path / name)
    assert sound.rate == 16_000 and sound.seconds == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(sound.samples[2000:14_000], tone(1.0, 16_000)[2000:14_000], atol=tolerance)


@pytest.mark.parametrize(("rate", "other"), [(8_000, 16_000), (44_100, 16_000)])
def test_a_tone_stays_a_tone_at_another_rate(rate: int, other: int) -> None:
    both = tone(1.0, rate) + (tone(1.0, rate, 15_000) if rate > 30_000 else 0)  # 16,000 cannot hold it
    made = Sound("a.wav", both.astype(np.float32), rate).at(other)
    assert made.rate == other and f"resampled from {rate:,}" in made.notes[0]
    np.testing.assert_allclose(made.samples[500:-500], tone(1.0, other)[500:-500], atol=1e-3)


def test_what_is_no_sound_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.mp3").write_text("no sound")
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), 8_000, subtype="FLOAT")
    for path, words in (
        (tmp_path / "text.mp3", "no sound that can be read"),
        (tmp_path / "none.wav", "No such file"),
        (tmp_path / "nan.wav", r"no numbers \(NaN or infinite\)"),
        (write_wav(tmp_path / "empty.wav", np.zeros(0)), "there is no sound in it"),
    ):
        with pytest.raises(ReadError, match=words):
            read_sound(path)


def test_without_the_extra_only_plain_wav_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_files, "find_spec", lambda name: None)
    sound = read_sound(write_wav(tmp_path / "a.wav", tone(0.1, 8_000), 8_000))
    wide = write_wav(tmp_path / "wide.wav", tone(0.1, 100), width=3)
    for refused in (lambda: read_sound(wide), lambda: sound.at(16_000)):
        with pytest.raises(ReadError, match="is not installed") as error:
            refused()
        assert error.value.hint == 'pip install "attncli[audio]"'
