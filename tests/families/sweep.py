"""``make coverage``: captures a tiny model of every family in the installed transformers and writes docs/coverage.md.

Each family runs in a process of its own with a time limit. Results are kept as lines of JSON; a sweep that was
stopped goes on where it was, unless ``--fresh`` is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]
sys.dont_write_bytecode = True

SECONDS = 240


def families() -> list[str]:
    """Name every family that AutoModel can make."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def _child(family: str, sender: Connection) -> None:
    import warnings

    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from families.compare import examine
    from families.doors import look_further
    from families.outcome import Outcome

    try:
        outcome = examine(family)
        look_further(outcome)
    except Exception as error:  # a defect of the sweep or of capture: it must be seen
        text = " ".join(str(error).split())[:200]
        outcome = Outcome(family, "crash", f"{type(error).__name__}: {text}")
    sender.send(outcome.as_dict())
    sender.close()


def sweep(names: list[str], kept: Path, workers: int) -> None:
    """Examine families side by side, writing each result down as it comes."""
    fork = multiprocessing.get_context("fork")
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < workers:
            family = waiting.pop(0)
            receiver, sender = fork.Pipe(duplex=False)
            process = fork.Process(target=_child, args=(family, sender))
            process.start()
            sender.close()
            running[receiver] = (family, process, time.monotonic())
        wait(list(running), timeout=1)
        for receiver, (family, process, started) in list(running.items()):
            result = _result(receiver, family, process, time.monotonic() - started)
            if result is not None:
                del running[receiver]
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
                print(f"{result['status']:<12} {family:<34} {result['why'][:120]}", flush=True)


def _result(receiver: Connection, family: str, process: Any, seconds: float) -> dict[str, Any] | None:
    from families.outcome import Outcome

    if receiver.poll():
        try:
            result = receiver.recv()
        except EOFError:
            result = Outcome(family, "crash", "its process ended without an answer").as_dict()
    elif seconds > SECONDS:
        process.kill()
        result = Outcome(family, "unbuildable", f"took more than {SECONDS} s").as_dict()
    else:
        return None
    process.join(5)
    return result


def main() -> int:
    """Run the sweep and write the page; exit 1 if anything is silently wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=Path("build/coverage.jsonl"))
    parser.add_argument("--page", type=Path, default=Path("docs/coverage.md"))
    asked = parser.parse_args()
    import torch
    import transformers
    from families.report import page
    from families.with_pictures import section

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    if asked.fresh:
        asked.results.unlink(missing_ok=True)
    done = _done(asked.results)
    every = families()
    _warm_up()
    todo = [name for name in asked.families or every if asked.families or name not in done]
    sweep(todo, asked.results, asked.workers)
    results = _done(asked.results)
    if not asked.families:
        asked.page.parent.mkdir(exist_ok=True)
        whole = f"{page([results[name] for name in every])}\n{section()}"
        asked.page.write_text(whole, encoding="utf-8")
        print(f"wrote {asked.page}")
    return int(any(map(_is_wrong, results.values())))


def _is_wrong(result: dict[str, Any]) -> bool:
    """Tell whether anything of a family is silently wrong, or ends in what is no clear error."""
    said = (result["depths"], result["typed"], result["generates"])
    holes = result["holes"].get("silent") or result["holes"].get("failed")
    return (
        result["status"] in ("wrong", "crash")
        or bool(holes)
        or any(text.startswith(("WRONG", "CRASH")) for text in said)
    )


def _warm_up() -> None:
    """Import what every family needs once, before the processes part."""
    from families.compare import examine
    from families.doors import look_further

    for family in ("bert", "t5", "llama", "vit", "wav2vec2"):
        look_further(examine(family))


def _done(kept: Path) -> dict[str, dict[str, Any]]:
    if not kept.is_file():
        return {}
    lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    return {line["family"]: line for line in lines}


if __name__ == "__main__":
    sys.exit(main())
