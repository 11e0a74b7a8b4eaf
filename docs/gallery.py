"""Draw the figures of docs/gallery.md into docs/gallery/, and write that page: each figure with its command.

Most need the shipped models alone. Some need a model that is no part of the repository: where $ATTNCLI_TEST_MODELS (or
~/.cache/attncli-test-models, see tests/models/fetch.py) has none, or $ATTNCLI_SPEECH names no WAV file of speech, the
figure that is there stays. The photograph is Matplotlib's sample, a portrait of Grace Hopper, which is in the public
domain; the model that looks at it is untrained, so that it shows the form and no finding.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
TEXT = "The animal didn't cross the street because it was too tired."
STORY = "My mother told my sister, and my sister told my father."
HELD_OUT = "attncli/shipped_models/tiny-decoder/held-out.txt"


@dataclass(frozen=True)
class Figure:
    """One figure.

    Args:
        about: What it shows, in a sentence.
        command: What draws it, after ``attncli``, without ``-o``; names of models and inputs in braces.
    """

    name: str
    about: str
    command: str


FIGURES = (
    Figure(
        "head",
        "One head: rows are queries, columns are keys.",
        f'show "{TEXT}" -m {{minilm}} --layer 2 --head 8',
    ),
    Figure(
        "layer",
        "One layer: its twelve heads on one scale, on paper's white.",
        f'show "{TEXT}" -m {{minilm}} --layer 3 --style paper-wide',
    ),
    Figure(
        "heads", "All heads of a model, on a slide.", f'show "{TEXT}" -m {{minilm}} --head all --style slide'
    ),
    Figure(
        "entropy",
        "How spread out each head's attention is: a linear scale.",
        f'heads "{TEXT}" -m {{minilm}} --by entropy',
    ),
    Figure(
        "change",
        "What a change does, head by head: one word replaced by another, the map of A, of B, and the difference.",
        f'diff "{TEXT}" "The animal didn\'t cross the street because it was too wide." -m {{minilm}} --maps 3',
    ),
    Figure("mask", "A mask, with lines between its cells.", "mask sliding-window -n 16 --set window=4"),
    Figure("variants", "Variants of attention on the same queries, keys and values.", f'compare "{TEXT}"'),
    Figure(
        "cross",
        "Cross-attention: a date in words, written in digits.",
        'show "the fourth of july, seventeen seventy-six" -m tiny-translator --layer 1',
    ),
    Figure(
        "photo",
        "A photograph, and one query's weights over it (an untrained model).",
        "show {photo} -m {vit} --layer 1 --head 2",
    ),
    Figure(
        "speech",
        "Speech: which moments each token comes from.",
        "show {speech} -m {whisper} --layer 2 --head 3",
    ),
    Figure(
        "diagram",
        "The computation of one row, with true shapes.",
        'explain "the fourth of july, seventeen seventy-six" -m tiny-translator --layer 1 --head 2 --query 3 '
        "--no-numbers",
    ),
    Figure(
        "bench",
        "What attention costs: time and memory over length, in the dark.",
        "bench --variants full,flash,linear --seq-len 128,256,512,1024 --max-time 1 --style dark --no-notes",
    ),
    Figure(
        "text",
        "One query's weights on the text itself.",
        f'show "{STORY} {STORY}" -m tiny-decoder --layer 1 --head 1 --query -2 --running-text',
    ),
)


def places(folder: Path) -> dict[str, str]:
    """Return what the names in braces stand for, as far as it is here."""
    cache = Path.home() / ".cache" / "attncli-test-models"
    models = Path(os.environ.get("ATTNCLI_TEST_MODELS", cache))
    folders = {"minilm": "all-minilm-l6-v2", "whisper": "whisper-tiny-en"}
    found = {name: str(models / where) for name, where in folders.items() if (models / where).is_dir()}
    with contextlib.suppress(FileNotFoundError):
        from matplotlib.cbook import get_sample_data

        found["photo"] = str(get_sample_data("grace_hopper.jpg", asfileobj=False))
    speech = os.environ.get("ATTNCLI_SPEECH")
    return found | {"vit": str(_vision_model(folder))} | ({"speech": speech} if speech else {})


def _vision_model(folder: Path) -> Path:
    """Write a small untrained model of pictures."""
    import torch
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    torch.manual_seed(3)
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    ViTModel(ViTConfig(patch_size=16, image_size=224, initializer_range=0.15, **sizes)).save_pretrained(
        folder / "vit"
    )
    ViTImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder / "vit")
    return folder / "vit"


def draw(figure: Figure, where: Mapping[str, str]) -> None:
    """Draw a figure, or leave it where something that it needs is missing."""
    try:
        words = [
            word.format(**where) if word.startswith("{") else word for word in shlex.split(figure.command)
        ]
    except KeyError as missing:
        print(f"{figure.name}: no {missing} here, so it stays as it is")
        return
    print(f"{figure.name}: attncli {figure.command}")
    subprocess.run(
        [sys.executable, "-m", "attncli", *words, "-q", "-o", str(FOLDER / f"{figure.name}.png")],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        check=True,
    )


def page() -> str:
    """Return the page: three figures a line, and below them their commands."""
    cells = [f'<img src="gallery/{figure.name}.png" width="270" alt="{figure.about}">' for figure in FIGURES]
    rows = [cells[start : start + 3] for start in range(0, len(cells), 3)]
    table = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    names = {"minilm": "./all-minilm-l6-v2", "whisper": "./whisper-tiny-en", "vit": "./vit"}
    shown = names | {"photo": "photo.jpg", "speech": "speech.wav"}
    commands = "\n".join(
        f"- **{figure.name}**: {figure.about}\n\n  ```sh\n  attncli "
        f"{figure.command.format(**shown)} -o {figure.name}.png\n  ```\n"
        for figure in FIGURES
    )
    return _HEAD + f"<table>\n{table}</table>\n\n## Their commands\n\n{commands}"


_HEAD = """# Figures

All of these were drawn by `make docs`, each by one command. A file's ending picks the form: `.png`, `.svg`, `.pdf`. In
a picture stand facts about the data alone; what concerns the run goes to stderr.

| option | does |
|---|---|
| `--title TEXT` | another title; `""` for none |
| `--no-notes`, `--no-numbers` | nothing below it; no numbers in its cells, and of `explain` the diagram alone |
| `--columns N` | so many panels side by side |
| `--size WxH` | `8.4cm` (the height follows), `8.4x6cm`, `4x3in`; labels that would be too small are left out |
| `--font-size PT` | the size of its letters at that size |
| `--scale linear\\|sqrt`, `--vmax X` | the form of the scale of colours, and the number at its end |
| `--colormap NAME` | viridis, cividis, magma, inferno, plasma, grey; in `light` 0 is white |
| `--running-text` | the keys as the text that they are, each on the colour of its weight; in a terminal too |
| `--style NAME` | `paper` (84 mm), `paper-wide` (174 mm), `slide`, `dark` (both 1920×1080 dots), or a `.toml` file |

A file keeps the settings of a paper's figures together, and may start from a style:

```toml
style = "paper"
font-size = 8
colormap = "magma"
size = "8.4x6cm"
scale = "linear"
vmax = 0.5
notes = false
ground = "white"
```

"""


def main() -> None:
    """Draw all figures, or those that are named, and write the page."""
    FOLDER.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        where = places(Path(temporary))
        for figure in FIGURES:
            if not wanted or figure.name in wanted:
                draw(figure, where)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
