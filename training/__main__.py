"""Train one of the small models that attncli ships, on a CPU, from nothing, the same each time.

The text comes from two Debian packages, where they are installed (apt-get install r-cran-janeaustenr dict-devil), or
from --text: files, or a folder that the packages were unpacked into. tiny-translator needs none: it learns from dates
that are made up on the way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from attncli.errors import AttnCliError
from attncli.models.shipped import MODELS
from training import card, recipes


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what the command line names, and write it."""
    wish = _parser().parse_args(arguments)
    torch.set_num_threads(wish.threads)
    command = f"python -m training {wish.name}" + (f" --seed {wish.seed}" if wish.seed else "")
    try:
        recipe = recipes.RECIPES[wish.name](wish.text)
    except AttnCliError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    trained = recipes.train(recipe, seed=wish.seed, steps=wish.steps, command=command)
    folder = Path(wish.out or MODELS) / wish.name
    card.write(folder, trained)
    print(f"wrote {folder}", file=sys.stderr)
    for name, value in trained.figures.items():
        print(f"{name}\t{value:.4f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=sorted(recipes.RECIPES), help="which model")
    parser.add_argument("--text", nargs="+", default=["/"], metavar="PATH", help="where the text is")
    parser.add_argument("--out", metavar="FOLDER", help="where NAME/ is written; in the package by default")
    parser.add_argument("--steps", type=int, metavar="N", help="fewer or more than the recipe says")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the processor; 1 by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
