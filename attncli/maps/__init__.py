"""Maps of weights and masks: what ``show``, ``mask`` and ``compare`` make, and what ``show`` reads besides texts.

A file that reads an input of another kind than a text has an `ENTRY` whose attributes are

    suffixes   endings of the files' names, ``(".wav", ".mp3")``
    models     a few families of models that read them, for messages
    example    a file's name, for messages
    takes      the main inputs, as transformers' classes name them, of models that read such files
    towers     True where a model of two towers (CLIP) reads them in one; otherwise absent

and the function of `InputKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from attncli.cli.options import GenerationOptions, ModelOptions, OutputOptions
    from attncli.maps.options import ShowOptions
    from attncli.models.opening import Opened
    from attncli.view import MatrixGrid


@dataclass(frozen=True)
class OpenedInput:
    """A model that will read a file, and what to show of it.

    Args:
        choice: What the user asked for, completed.
        lay_over: Lays the weights over what was read, for forms that draw; None where they stay a map.
    """

    source: Opened
    choice: ShowOptions
    lay_over: Callable[[MatrixGrid], MatrixGrid] | None = None


class InputKind(Protocol):
    """What a file of such a kind offers."""

    def open_input(
        self,
        path: str,
        choice: ShowOptions,
        model: ModelOptions,
        output: OutputOptions,
        writing: GenerationOptions,
        formats: Collection[str],
    ) -> OpenedInput:
        """Open a file with a model.

        Args:
            formats: Those that the view will be written in.

        Raises:
            AttnCliError: It cannot be read, or an option does not go with it.
        """
