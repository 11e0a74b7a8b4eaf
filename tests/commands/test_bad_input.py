"""Every mistake a user can make ends with one clear line, the right exit code, and nothing half-written."""

import os
from pathlib import Path

import pytest
import tiny
from commandline import Cli, Result

BAD: list[tuple[tuple[str, ...], int, str]] = [
    (("show", ""), 2, "text is empty"),
    (("show", "a", "--layer", "2"), 2, "--layer 2: out of range"),
    (("show", "a", "-m", "scratch", "--head", "2"), 2, "this model has heads only 0"),
    (("show", "a", "--head", "x"), 2, "not a head selection"),
    (("show", "a", "--query", "zebra"), 2, 'no token "zebra"'),
    (("show", "a", "--query", "3"), 2, "positions go from 0 to 1"),
    (("show", "a", "--kind", "cross"), 2, "there is only decoder attention here"),
    (("show", "a", "--kind", "crosss"), 2, 'did you mean "cross"?'),
    (("show", "a", "-m", "scratch", "--heads", "3"), 2, "--d-model 64"),
    (("show", "a", "--heads", "0"), 2, "--heads: must be at least 1"),
    (("show", "a", "--format", "jsn"), 2, 'did you mean "json"?'),
    (("show", "a", "--format", "png", "--json"), 2, "--format and --json were both given"),
    (("show", "a", "--format", "csv", "-o", "x.json"), 2, "contradict each other"),
    (("show", "a", "-o", "x.foo"), 2, "unknown file ending"),
    (("show", "a", "--color", "blue"), 2, "--color blue"),
    (("show", "a", "--colormap", "viridas"), 2, 'did you mean "viridis"?'),
    (("show", "a", "--width", "0"), 2, "--width 0"),
    (("show", "a", "--layer", ""), 2, "not a layer selection"),
    (("show", "a", "-m", ""), 2, "the model's name is empty"),
    (("tokens", "a", "-m", ""), 2, "the model's name is empty"),
    (("heads", "a", "-m", ""), 2, "the model's name is empty"),
    (("mask", "a", "-m", ""), 2, "the model's name is empty"),
    (("mask", "a", "-m", "tiny-encoder", "--layer", "mean"), 2, "--layer mean: masks have no mean"),
    (("show", "-5 °C"), 2, 'attncli show -- "-5 …"'),
    (("list", "-x"), 2, "try: attncli list --help"),
    (("show", "a", "-m", "scratch", "--dtype", "bfloat16"), 2, "--dtype needs a pretrained model"),
    (("show", "a", "-m", "tiny-decoder", "--seed", "3"), 2, "--seed needs --generate or the scratch model"),
    (("show", "a", "--top", "2", "-f", "heatmap"), 2, "a picture shows all keys"),
    (("show", "a", "-m", "scratch", "--heads", "3"), 2, "hint: --d-model 66"),
    (("show", "a", "--heads", "3"), 2, "hint: did you mean --head? Or add --model scratch"),
    (("heads", "a", "--layers", "3"), 2, "hint: did you mean --layer? Or add --model scratch"),
    (("compare", ""), 2, "error: the text is empty"),
    (("bench", "-n", "64,,128"), 2, "'' is no whole number"),
    (("show", "a", "--bogus"), 2, "no such option: --bogus"),
    (("show", "a", "--laye", "1"), 2, 'did you mean "--layer"?'),
    (("show", "a", "b"), 2, "put the text in quotes"),
    (("show", "--file", "/no/such/file"), 1, "No such file"),
    (("show", "a", "--file", "b"), 2, "both given"),
    (("show", "a", "-o", "/no/such/folder/x.png"), 1, "/no/such/folder/x.png: No such file or directory"),
    (("show", "a", "-o", "/"), 2, "unknown file ending"),
    (("show", "a", "-m", "./nowhere"), 4, "the folder ./nowhere does not exist"),
    (("mask",), 2, "no mask was named"),
    (("mask", "casual"), 2, 'did you mean "causal"?'),
    (("mask", "causal", "--seq-len", "0"), 2, "--seq-len"),
    (("mask", "causal", "--seq-len", "4.5"), 2, "--seq-len: must be a whole number"),
    (("mask", "causal", "a b", "--seq-len", "4"), 2, "both given"),
    (("mask", "causal", "--set", "window=3"), 2, "causal has no parameter 'window'"),
    (("mask", "padding", "--set", "pad"), 2, "expected name=value"),
    (("mask", "padding", "--set", "pad=-1"), 2, "must be at least 0"),
    (("mask", "padding", "--set", "pad=x"), 2, "must be a whole number"),
    (("mask", "padding", "--set", "side=up"), 2, "unknown value"),
    (("mask", "padding", "--seq-len", "4", "--set", "pad=5"), 2, "more than the 4 keys"),
    (("mask", "slidingwindow"), 2, 'did you mean "sliding-window"?'),
    (("mask", "sliding-window", "--set", "window=0"), 2, "must be at least 1"),
    (("mask", "sliding-window", "--set", "windw=3"), 2, 'did you mean "window"?'),
    (("mask", "sliding-window", "--set", f"window={10**30}"), 2, "must be at most"),
    (("mask", "sparse-fixed", "--set", "stride=4"), 2, "got summary=8 and stride=4"),
    (("mask", "dsa", "-n", "4", "--set", "top-k=5"), 2, "at most the 4 keys there are, got 5"),
    (("mask", "bigbird", "--causal"), 2, "bigbird has no causal form"),
    (("mask", "full", "--causal"), 2, "full has no causal form"),
    (("mask", "sparse-fixed", "--no-causal"), 2, "sparse-fixed is causal by definition"),
    (("mask", "recurrent", "--no-causal"), 2, "recurrent is causal by definition"),
    (("mask", "padding", "--causal", "--set", "causal=no"), 2, "were both given"),
    (("mask", "bigbird", "-n", "4", "--key-len", "7"), 2, "as many keys as queries, got 7 for 4"),
    (("mask", "convolution", "--layer", "1"), 2, "for a pattern's own layer: --set layer=N"),
    (("mask", "causal", "-m", "./nowhere", "--causal"), 2, "--model and --causal were both given"),
    (
        ("mask", "bigbird", "-n", "65536", "--json"),
        5,
        "65,536×65,536 = 4,294,967,296 pairs would be about 12 GiB",
    ),
    (("show", "a b", "--layers", "50000", "--d-model", "65536"), 5, "a scratch model of 50000 layers"),
    (("mask", "causal", "-n", "10000000000000"), 5, "10,000,000,000,000 rows: "),
    (("shw", "a"), 2, 'did you mean "show"?'),
    (("list", "variant"), 2, 'did you mean "variants"?'),
    (("schema", "shew"), 2, 'did you mean "show"?'),
    (("completion", "bsh"), 2, 'did you mean "bash"?'),
]


def assert_told(result: Result, code: int, words: str) -> None:
    assert (result.code, result.out) == (code, ""), result
    assert words in result.err and result.err.startswith("error: ")
    assert len(result.err.splitlines()) <= 3 and "Traceback" not in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_mistake_is_told_in_at_most_three_lines(
    cli: Cli, arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert_told(cli(*arguments), code, words)


def test_invalid_utf8_on_stdin_names_the_byte(cli: Cli) -> None:
    assert_told(cli("show", "-", stdin=b"ab\xffcd"), 2, "stdin is not UTF-8: byte 0xff at offset 2")


def test_a_byte_order_mark_is_no_text_and_utf_16_is_recognised(cli: Cli) -> None:
    marked, plain = (cli("tokens", "-f", "csv", stdin=mark + b"a b\r\n") for mark in (b"\xef\xbb\xbf", b""))
    assert marked.code == 0 and marked.out == plain.out
    assert_told(cli("tokens", stdin="a b".encode("utf-16")), 2, "hint: it seems to be UTF-16: iconv")


def test_empty_stdin_is_an_empty_text(cli: Cli) -> None:
    assert_told(cli("show", stdin=b""), 2, "text is empty")


def test_a_text_that_is_too_long_names_both_numbers(cli: Cli, tiny_bert: str) -> None:
    assert_told(cli("show", "the " * 30, "-m", tiny_bert), 2, "the text has 32 tokens")
    cut = cli("show", "the " * 30, "-m", tiny_bert, "--truncate")
    assert cut.code == 0 and "16 are left out" in cut.out


def test_layers_and_heads_out_of_range_tell_the_range_of_the_model(cli: Cli, tiny_bert: str) -> None:
    assert_told(cli("show", "it", "-m", tiny_bert, "--layer", "2"), 2, "this model has layers 0 to 1")
    assert_told(cli("show", "it", "-m", tiny_bert, "--head", "0-3"), 2, "this model has heads 0 to 2")


def test_a_model_that_cannot_be_had_ends_with_4(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    result = cli("show", "it", "-m", "nobody/nothing", "--offline")
    assert_told(result, 4, f"model nobody/nothing: no such folder, not in {tmp_path}")


def test_broken_model_folders_end_with_4_and_name_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    folder = tiny.write_bert(tmp_path / "bert")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert_told(cli("show", "it", "-m", str(folder)), 4, "truncated or corrupted")
    weights.rename(folder / "pytorch_model.bin")
    assert_told(cli("show", "it", "-m", str(folder)), 4, "a pickle")
    (folder / "pytorch_model.bin").unlink()
    assert_told(cli("show", "it", "-m", str(folder)), 4, "no weights")
    (folder / "config.json").unlink()
    assert_told(cli("show", "it", "-m", str(folder)), 4, "no config.json")


def test_an_answer_too_large_for_memory_ends_with_5_and_says_what_to_ask(
    cli: Cli, monkeypatch, tiny_bert: str
) -> None:
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: 100)
    monkeypatch.setattr("attncli.memory.UNASKED", 0)
    assert_told(
        cli("show", "it was", "-m", tiny_bert, "--head", "all"),
        5,
        "6 maps of 4×4 weights: 480 B needed; 100 B are free",
    )


def test_too_many_numbers_for_text_end_with_5(cli: Cli, monkeypatch) -> None:
    monkeypatch.setattr("attncli.cli.output.LARGEST_TEXT", 8)
    assert_told(cli("show", "a b c", "-m", "scratch", "--json"), 5, "1 map of 3×3: 9 numbers")
    monkeypatch.setattr("attncli.models.scratch.ScratchSource.run", lambda *_: pytest.fail("computed"))
    few = ("-m", "scratch", "--layers", "3", "--layer", "0,1", "--heads", "4", "--json")
    assert_told(cli("show", "a b c", *few), 5, "at least 2 maps of 3×3: 18 numbers")
    monkeypatch.undo()
    monkeypatch.setattr("attncli.cli.output.LARGEST_TEXT", 8)
    assert cli("show", "a b c", "-m", "scratch", "--json", "--yes-large").code == 0
    assert cli("show", "a b c", "-m", "scratch", "--json", "--top", "1").code == 0


def test_an_unwritable_output_fails_before_anything_is_computed(
    cli: Cli, monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("attncli.models.opening.open_source", lambda *_: pytest.fail("computed"))
    (tmp_path / "folder.json").mkdir()
    assert_told(cli("show", "a", "-o", str(tmp_path / "folder.json")), 1, "is a directory")
    (tmp_path / "old.json").write_text("keep me")
    assert_told(cli("show", "a", "--no-clobber", "-o", str(tmp_path / "old.json")), 1, "exists already")
    assert (tmp_path / "old.json").read_text() == "keep me"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_told_and_nothing_is_left(cli: Cli, tmp_path: Path, monkeypatch) -> None:
    assert_told(
        cli("show", "a", "-o", "/dev/full", "--format", "json"), 1, "/dev/full: No space left on device"
    )

    def full(self: object, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("attncli.cli.output.os.fsync", lambda _: full(None, b""))
    assert_told(cli("show", "a", "-o", str(tmp_path / "x.json")), 1, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_self_check_is_an_error_and_not_a_picture(cli: Cli, monkeypatch, tiny_llama: str) -> None:
    import torch

    monkeypatch.setattr("attncli.capture.checks.OUTPUT_TOLERANCE", {torch.float32: -1.0})
    assert_told(cli("show", "it was", "-m", tiny_llama), 1, "self-check failed: decoder layer 0 head")
    shown = cli("show", "it was", "-m", tiny_llama, "--no-verify")
    assert shown.code == 0 and "unverified" in shown.out


def test_a_bug_of_ours_asks_for_debug_and_ends_with_70(cli: Cli, monkeypatch) -> None:
    monkeypatch.setattr("attncli.cli.common.choose_kind", lambda *_: 1 / 0)
    result = cli("show", "a")
    assert_told(result, 70, "internal error: ZeroDivisionError")
    assert "--debug" in result.err
    with pytest.raises(ZeroDivisionError):
        cli("show", "a", "--debug")


def test_memory_that_torch_cannot_have_is_too_large_and_no_bug(cli: Cli, monkeypatch) -> None:
    import torch

    monkeypatch.setattr("attncli.cli.common.choose_kind", lambda *_: torch.empty(2**60))
    assert_told(cli("show", "a"), 5, "out of memory")


def test_ctrl_c_ends_with_130(cli: Cli, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attncli.cli.common.choose_kind", interrupt)
    result = cli("show", "a")
    assert (result.code, result.out, result.err) == (130, "", "")
