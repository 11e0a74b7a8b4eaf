"""Run the marked commands of the README and of docs/, and write down what they print: 80 columns, without colour.

A marked command is written as

    <!-- tour: NAME -->
    ```sh
    attncli …
    ```
    <!-- output -->
    (replaced by what it prints; all of it is in docs/tour/NAME.txt)
    <!-- end -->

The part with the output is left out where the command writes a picture under docs/tour/ instead. Two words may follow
the name. ``noisy``: the numbers are measured times, so the test does not run the command again. ``folded``: the page
shows the output when a reader clicks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "tour"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WIDTH = ("--width", "80")

_STOP = re.compile(
    r"<!-- tour: (?P<name>[\w-]+)(?P<flags>[^>]*?) -->\n```sh\n(?P<command>.+?)\n```\n"
    r"(?P<shown><!-- output -->\n.*?<!-- end -->\n)?",
    re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
_DRAWN = re.compile(r"[─█▉▊▋▌▍▎▏░▒▓\s]+")


@dataclass(frozen=True)
class Stop:
    """One marked command.

    Args:
        shows: Whether the page has its output.
        folded: Whether a reader has to click to see it.
    """

    name: str
    command: str
    noisy: bool
    shows: bool
    folded: bool

    @property
    def arguments(self) -> list[str]:
        """Return what follows ``attncli``, and the width of the page."""
        first, *rest = shlex.split(self.command.replace("\\\n", " "))
        assert first == "attncli", f"the tour runs attncli alone, not {first}"
        return [*rest[:1], *WIDTH, *rest[1:]]

    @property
    def file(self) -> Path:
        """Return where its output is kept."""
        return FOLDER / f"{self.name}.txt"

    @property
    def pictures(self) -> list[Path]:
        """Return the files that it writes."""
        words = shlex.split(self.command)
        return [ROOT / after for word, after in pairwise(words) if word == "-o"]

    def shown(self, output: str) -> str:
        """Return the part of the page that shows the output."""
        text = f"```text\n{output.rstrip()}\n```\n"
        if self.folded:
            text = f"<details><summary>what it prints</summary>\n\n{text}\n</details>\n"
        return f"<!-- output -->\n{text}<!-- end -->\n"


def stops(page: str) -> Iterator[Stop]:
    """Yield the marked commands of a page."""
    for found in _STOP.finditer(page):
        yield Stop(
            found["name"],
            found["command"],
            "noisy" in found["flags"],
            found["shown"] is not None,
            "folded" in found["flags"],
        )


def with_outputs(page: str) -> str:
    """Return the page with the outputs that are kept."""
    by_name = {stop.name: stop for stop in stops(page)}

    def replaced(found: re.Match[str]) -> str:
        stop = by_name[found["name"]]
        if not stop.shows:
            return found[0]
        start = found[0].removesuffix(found["shown"])
        return start + stop.shown(stop.file.read_text(encoding="utf-8"))

    return _STOP.sub(replaced, page)


def difference(was: str, now: str, *, noisy: bool = False) -> str | None:
    """Return the first line that differs, or None.

    Numbers may differ by 2 % or 0.002, as processors do. Spaces and drawn bars are not compared, since they follow the
    numbers. Noisy numbers may be any.

    >>> difference("a  0.5001 ██", "a 0.5 █"), difference("a 1", "a 2", noisy=True)
    (None, None)
    >>> difference("a 1", "a 2")
    'a 1 → a 2'
    """
    if noisy:
        was, now = (text.partition("\n")[0] for text in (was, now))
    for one, other in zip_longest(was.splitlines(), now.splitlines(), fillvalue=""):
        if _words(one) != _words(other) or not (noisy or _near(_numbers(one), _numbers(other))):
            return f"{one} → {other}"
    return None


def _words(line: str) -> str:
    return _DRAWN.sub("", _NUMBER.sub("#", line))


def _numbers(line: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(line)]


def _near(ones: list[float], others: list[float]) -> bool:
    pairs = zip(ones, others, strict=True)
    return all(abs(one - other) <= max(0.02 * max(abs(one), abs(other)), 0.002) for one, other in pairs)


def run(stop: Stop) -> str:
    """Run a command in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "attncli", *stop.arguments],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{stop.command}\nended with {done.returncode}: {done.stderr}")
    return done.stdout


def main() -> None:
    """Run all marked commands and put their outputs into the pages."""
    FOLDER.mkdir(exist_ok=True)
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        for stop in stops(page):
            print(f"{path.name}, {stop.name}: {stop.command}")
            output = run(stop)
            if stop.shows:
                stop.file.write_text(output, encoding="utf-8")
        path.write_text(with_outputs(page), encoding="utf-8")


if __name__ == "__main__":
    main()
