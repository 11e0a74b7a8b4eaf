"""What can go wrong for a user, with the exit code that tells a script which it was.

Library callers who pass a wrong shape or range get a plain `ValueError`; these classes are for
mistakes a person can mend: a name, a text, a model, a file, a request that is too large.
"""

from collections.abc import Iterable


class AttnCliError(Exception):
    """A mistake the user can mend, told in at most three lines.

    Args:
        message: What was wrong and what came, one line.
        hint: What to do about it, one line, or nothing.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ReadError(AttnCliError):
    """An input file or stream could not be read."""


class WriteError(AttnCliError):
    """An output could not be written."""


class CaptureError(AttnCliError):
    """Attention could not be captured, or a self-check on captured numbers failed."""


class UsageError(AttnCliError):
    """The command line, or a value on it, is not right."""

    exit_code = 2


class CheckFailed(AttnCliError):
    """A check that the user asked for did not hold."""

    exit_code = 3


class ModelError(AttnCliError):
    """A model or its tokenizer is not available."""

    exit_code = 4


class TooLargeError(AttnCliError):
    """The answer, or the way to it, does not fit in memory."""

    exit_code = 5


class ClosedPipe(AttnCliError):
    """Whoever read our output has stopped reading: no mistake, and nothing to say.

    Not a BrokenPipeError, which Typer would turn into exit code 1 before `main` sees it.
    """

    exit_code = 141


def did_you_mean(name: str, choices: Iterable[str]) -> str | None:
    """Return the hint for a mistyped name.

    >>> did_you_mean("casual", ["causal", "full", "padding"])
    'did you mean "causal"?'
    >>> did_you_mean("zebra", ["causal", "full"])
    'choose from: causal, full'
    """
    from difflib import get_close_matches

    known = list(choices)
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"choose from: {', '.join(known)}" if 0 < len(known) <= 24 else None
