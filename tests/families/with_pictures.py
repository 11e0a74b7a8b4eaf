"""Sweeps the families of texts with pictures as a user types them; run alone, it writes its part of coverage.md."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE))

TITLE = "## With a picture in the text"
ABOUT = """\
`attncli show TEXT --image picture.png -m FOLDER --json`, with the family's own processor, and again with `--generate`.
Right: every weight of every layer and head equals eager's with the picture in the input, to 2e-5. *patches*: what the
first and the last of the picture's tokens are called; a test holds these against the places that they come from."""


def section() -> str:
    """Run the command for each family; return the part of the page."""
    import tiny_image_text

    lines = [
        TITLE,
        "",
        ABOUT,
        "",
        "| family | patches | largest difference | with `--generate` |",
        "|---|---|--:|--:|",
    ]
    for family in tiny_image_text.FAMILIES:
        lines.append(f"| {family} | {' | '.join(_row(family))} |")
    return "\n".join([*lines, ""])


def _row(family: str) -> tuple[str, str, str]:
    import tiny_image_text
    from PIL import Image

    with TemporaryDirectory() as named:
        folder = Path(named)
        picture = folder / "picture.png"
        Image.linear_gradient("L").resize((96, 72)).save(picture)
        try:
            tiny_image_text.write_image_text(folder, family, template=True)
        except ImportError as error:
            return f"not buildable here: {' '.join(str(error).split())[:60]}", "", ""
        patches, read = _difference(folder, picture)
        return patches, f"{read:.1e}", f"{_difference(folder, picture, '--generate', '3')[1]:.1e}"


def _difference(folder: Path, picture: Path, *more: str) -> tuple[str, float]:
    """Return the names of the picture's first and last token, and the largest difference from eager."""
    import torch
    from families.command import Refused, show

    try:
        document = show("what is on the table ?", folder, "--image", str(picture), *more)
    except Refused as reason:
        raise SystemExit(f"{folder}: {reason}") from reason
    expected = _eager(folder, picture, document)
    largest = 0.0
    for one in document["attention"]:
        found, theirs = torch.tensor(one["weights"]), expected[one["layer"]][one["head"]]
        rows = theirs.shape[0]
        largest = max(largest, float((found[:rows] - theirs).abs().max()))
    if largest > 2e-5:
        raise SystemExit(f"{folder}: off by {largest}")
    names = [token["label"] for token in document["key_tokens"] if token.get("segment") == "img"]
    return f"{names[0]} … {names[-1]}", largest


def _eager(folder: Path, picture: Path, document: Any) -> Any:
    """Return eager's weights by layer: over the prompt, and of each step after it, as wide as all keys."""
    import torch
    from transformers import AutoModelForImageTextToText

    from attncli.models.image_text import prepare_image_text
    from attncli.models.loading import load
    from attncli.models.picture_file import read_photo

    prepared = prepare_image_text(load(str(folder)), "what is on the table ?", [read_photo(picture)])
    model = AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="eager").eval()
    written = len(document["key_tokens"]) - prepared.inputs["input_ids"].shape[1]
    wish = {"do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
    with torch.inference_mode():
        made = model.generate(**prepared.inputs, max_new_tokens=max(written, 1), **wish)
    width = len(document["key_tokens"])
    steps = [
        [torch.nn.functional.pad(layer[0], (0, width - layer.shape[-1])) for layer in step]
        for step in made.attentions
    ]
    return [torch.cat(rows, dim=1) for rows in zip(*steps, strict=True)]


if __name__ == "__main__":
    import transformers

    transformers.logging.set_verbosity_error()
    page = HERE.parent / "docs" / "coverage.md"
    before = page.read_text(encoding="utf-8").partition(f"\n{TITLE}")[0].rstrip("\n")
    page.write_text(f"{before}\n\n{section()}", encoding="utf-8")
    print(f"wrote {page}")
