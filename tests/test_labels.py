from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.labels import ascii_label, cells, fit, graphemes, pad, safe_label

ANY_TEXT = st.text(st.characters(codec=None), max_size=12)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("\r", "␍"),
        (" the ", "·the·"),
        ("   ", "···"),
        ("a b", "a b"),
        ("\x00", "␀"),
        ("\x1b]0;x\x07", "␛]0;x␇"),
        ("\x7f", "␡"),
        ("\x9b31m", "⟨009B⟩31m"),
        ("\ud83d", "⟨D83D⟩"),
        ("\u202etxt", "⟨202E⟩txt"),
        ("a\u200bb", "a⟨200B⟩b"),
        ("\ue000", "⟨E000⟩"),
        ("\u0378", "⟨0378⟩"),
        ("\u2028", "⟨2028⟩"),
        ("\u0301", "◌\u0301"),
        ("", "∅"),
        ("‿ed", "‿ed"),
        ("⟨F0·9F⟩", "⟨F0·9F⟩"),
        ("\u00a0x", "⟨00A0⟩x"),
        ("交通", "交通"),
    ],
)
def test_each_rule_makes_its_mark(text: str, label: str) -> None:
    assert safe_label(text) == label


def test_a_joiner_stays_inside_an_emoji_and_nowhere_else() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert safe_label(family) == family
    assert safe_label("❤\ufe0f\u200d\U0001f525") == "❤\ufe0f\u200d\U0001f525"
    assert safe_label("a\u200db") == "a⟨200D⟩b"
    assert safe_label("\U0001f468\u200d") == "\U0001f468⟨200D⟩"


@given(ANY_TEXT)
def test_a_safe_label_holds_no_hidden_character_and_is_never_empty(text: str) -> None:
    label = safe_label(text)
    assert label
    hidden = [character for character in label if unicodedata.category(character)[0] == "C"]
    assert set(hidden) <= {"\u200d"}
    label.encode("utf-8")


@given(ANY_TEXT)
def test_the_gate_leaves_a_safe_label_alone(text: str) -> None:
    assert safe_label(safe_label(text)) == safe_label(text)


def test_ascii_labels_keep_the_marks_readable() -> None:
    assert ascii_label("·the") == "_the"
    assert ascii_label("⏎") == "\\n"
    assert ascii_label("‿ed") == "##ed"
    assert ascii_label("⟨202E⟩交") == "<202E>\\u4ea4"


@given(ANY_TEXT)
def test_ascii_labels_are_ascii(text: str) -> None:
    assert ascii_label(safe_label(text)).isascii()


@given(ANY_TEXT, st.integers(0, 9))
def test_a_fitted_label_is_never_too_wide(text: str, width: int) -> None:
    label = safe_label(text)
    fitted = fit(label, width)
    assert cells(fitted) <= width
    assert (fitted == label) == (cells(label) <= width)


def test_wide_characters_take_two_cells() -> None:
    assert fit("交通信号", 7) == "交通信…"
    assert fit("交通信号", 2) == "…"
    assert pad("交", 5, "right") == "   交"


def test_what_people_see_as_one_character_is_not_torn() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert graphemes(f"{family}e\u0301\U0001f1eb\U0001f1f7\U0001f1ea\U0001f1f8") == [
        family,
        "e\u0301",
        "\U0001f1eb\U0001f1f7",
        "\U0001f1ea\U0001f1f8",
    ]
    assert fit("e\u0301e\u0301e\u0301", 2) == "e\u0301…"


def test_importing_the_gate_does_not_import_rich() -> None:
    code = "import attncli.labels as l, sys; l.fit('abcdef', 3, '~'); sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
