"""Draws samples to look at: python tests/render/gallery.py [FOLDER] prints heatmaps and writes pictures.

Not a test. ``--width 80 --color truecolor --only heads`` choose what is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from render_samples import ANIMAL, HOSTILE, grid, mask, signed, table, variants

from attncli import registry
from attncli.render import Options
from attncli.view import MatrixGrid

LONG = [f"tok{index}" if index % 7 else "street" for index in range(200)]


def views() -> dict[str, object]:
    holes = grid(layers=1, heads=1)
    holes.matrices[0].values[3] = np.nan
    return {
        "one": grid(),
        "causal": grid(causal=True),
        "cross": grid(keys=["les", "·animaux", "ne", "·traversent", "‿ent"]),
        "long": grid(LONG, causal=True),
        "heads": grid(layers=6, heads=12),
        "heads_causal": grid(layers=6, heads=12, causal=True),
        "four": grid(layers=1, heads=4),
        "layers": grid(layers=6, heads=1),
        "mask": mask(),
        "mask_words": mask(16, 5, ANIMAL),
        "mask_long": mask(200, 60),
        "signed": signed(),
        "signed_small": signed(scale=1e-5),
        "variants": variants(),
        "variants_signed": variants(unit="signed"),
        "hostile": grid(HOSTILE),
        "holes": holes,
        "table": table(HOSTILE),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--color", default="truecolor")
    parser.add_argument("--colormap", default="viridis")
    parser.add_argument("--ascii", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--formats", default="heatmap")
    arguments = parser.parse_args()
    options = Options(
        arguments.width, arguments.color, not arguments.ascii, terminal=True, colormap=arguments.colormap
    )
    for name, view in views().items():
        if arguments.only and name not in arguments.only.split(","):
            continue
        for form in arguments.formats.split(","):
            entry = registry.entries("formats")[form]
            kind = "MatrixGrid" if isinstance(view, MatrixGrid) else "Table"
            if kind not in entry.attributes["views"]:
                continue
            drawn = registry.load("formats", form).render(view, options)
            if arguments.folder:
                suffix = (entry.attributes["suffixes"] or (".txt",))[0]
                Path(arguments.folder).mkdir(exist_ok=True)
                Path(arguments.folder, f"{name}{suffix}").write_bytes(drawn)
            else:
                sys.stdout.buffer.write(b"== " + name.encode() + b"\n" + drawn + b"\n")


if __name__ == "__main__":
    main()
