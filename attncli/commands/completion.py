"""attncli completion: Print a script that completes attncli's commands and options in a shell.

For bash: put  eval "$(attncli completion bash)"  into ~/.bashrc. For zsh: the same with zsh, into ~/.zshrc, below
compinit. For fish: attncli completion fish > ~/.config/fish/completions/attncli.fish
"""

from __future__ import annotations

from typing import Annotated

import typer

from attncli.errors import UsageError, did_you_mean

EXAMPLES = ("attncli completion bash", "attncli completion fish")

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ATTNCLI_COMPLETE"
"""Set by the script when it asks attncli for completions."""


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"One of: {', '.join(SHELLS)}.")],
) -> None:
    """Print a completion script."""
    from attncli.delivery import deliver_text

    deliver_text(completion_script(shell))


def completion_script(shell: str) -> str:
    """Give the script to be sourced by a shell's start-up file.

    Raises:
        UsageError: There is no script for this shell.
    """
    if shell not in SHELLS:
        raise UsageError(f"no completion for the shell {shell!r}", did_you_mean(shell, SHELLS))
    from typer import completion as typers

    script: str = typers.get_completion_script(  # type: ignore[attr-defined]  # imported there, not exported
        prog_name="attncli", complete_var=VARIABLE, shell=shell
    )
    return f"{script}\n"


def learn_shells() -> None:
    """Let Typer answer the scripts' questions, which it does by itself only under options of its own."""
    from typer._completion_classes import completion_init

    completion_init()
