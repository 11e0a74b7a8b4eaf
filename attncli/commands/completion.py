"""attncli completion: Print a script that completes attncli's commands, options and their values in a shell.

For bash: put  eval "$(attncli completion bash)"  into ~/.bashrc. For zsh: the same with zsh, into ~/.zshrc, below
compinit. For fish: attncli completion fish > ~/.config/fish/completions/attncli.fish
"""

from __future__ import annotations

from typing import Annotated

import typer

from attncli.cli.choices import Choices
from attncli.cli.command import spread
from attncli.cli.completion import SHELLS, completion_script

EXAMPLES = ("attncli completion bash", "attncli completion fish")

# Each script hands over the line up to the cursor and gets lines of a value and, after a tab, its meaning; a line
# ":files" or ":folders" asks the shell to add its own. Typer's scripts cannot do the latter, and evaluate the answer.


@spread
def completion(
    shell: Annotated[
        str, typer.Argument(metavar="SHELL", help=f"One of: {', '.join(SHELLS)}."), Choices(SHELLS)
    ],
) -> None:
    """Print a completion script."""
    from attncli.cli.output import deliver_text

    deliver_text(completion_script(shell))
