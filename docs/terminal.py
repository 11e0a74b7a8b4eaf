"""Draws docs/terminal.svg: the colours that the tour's first command prints in a terminal of 80 columns."""

from __future__ import annotations

import os
import subprocess
import sys
from html import escape
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "terminal.svg"
TEXT = "My mother told my sister, and my sister told my father."
WIDTH, HEIGHT, MARGIN = 8.4, 18, 16
GROUND, INK = "#1b1d23", "#d8dbe2"


def colours() -> str:
    """Return what the command prints, with its colours as ANSI codes."""
    command = [sys.executable, "-m", "attncli", "show", TEXT, "--color", "always", "--width", "80"]
    environment = os.environ | {"COLORTERM": "truecolor", "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=True, encoding="utf-8"
    ).stdout


def draw(printed: str) -> str:
    """Return the SVG of a terminal that shows the command and what it printed."""
    text = Text.assemble((f'$ attncli show "{TEXT}"', "bold"), "\n", Text.from_ansi(printed))
    lines = text.split("\n", allow_blank=True)
    width = 2 * MARGIN + WIDTH * max(line.cell_len for line in lines)
    height = 2 * MARGIN + HEIGHT * len(lines)
    drawn = [part for row, line in enumerate(lines) for part in _line(line, MARGIN + row * HEIGHT)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">',
            "<style>text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _line(line: Text, top: int) -> list[str]:
    grounds, texts, left = [], [], float(MARGIN)
    for segment in line.render(Console(color_system="truecolor"), end=""):
        style, wide = segment.style or Style(), WIDTH * segment.cell_length
        if style.bgcolor:
            ground = style.bgcolor.get_truecolor().hex
            grounds.append(
                f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{HEIGHT}" fill="{ground}"/>'
            )
        ink = style.color.get_truecolor().hex if style.color else INK
        weight = ' font-weight="bold"' if style.bold else ""
        place = f'x="{left:.1f}" y="{top + 13}" textLength="{wide:.1f}" xml:space="preserve"'
        texts.append(f'<text {place} fill="{ink}"{weight}>{escape(segment.text, quote=False)}</text>')
        left += wide
    return [*grounds, *texts]


if __name__ == "__main__":
    PICTURE.write_text(draw(colours()), encoding="utf-8")
