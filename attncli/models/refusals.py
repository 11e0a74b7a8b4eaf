"""What libraries say when they cannot load or read something, in one line and with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attncli.errors import AttnCliError, ModelError, ReadError, UsageError
from attncli.labels import safe_label
from attncli.memory import is_out_of_memory
from attncli.models.folders import is_gguf, missing_model
from attncli.versions import too_old

_SENTENCE = re.compile(r"(.+?[.!?])(?= [^a-z]|$)")
_INSTALL = re.compile(r"pip install [\w\[\].,=<>~ -]*[\w\]]")
_NEEDED = re.compile(r"(?:need to install|requires the|be able to load:?) ([\w-]+)|([\w-]+) is required")
_ARCHITECTURE = re.compile(r"model type `([^`]*)`")
_CONFIG_CLASS = re.compile(r"Unrecognized configuration class <class '[\w.]*\.(\w+)'>")
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """Options that a library's complaint may be about.

    Args:
        spread: Whether the model is spread over several devices.
        head: Whether its language-model head is wanted.
    """

    attention: str | None = None
    device: str = "cpu"
    spread: bool = False
    head: bool = False


@contextmanager
def refused_as(error_of: Callable[[str], AttnCliError]) -> Iterator[None]:
    """Raise our error for whatever a library raises; `error_of` makes it from the library's first sentence."""
    try:
        yield
    except AttnCliError:
        raise
    except Exception as error:  # some libraries raise nothing more special
        if is_out_of_memory(error):
            raise
        raise error_of(first_sentence(error)) from error


@contextmanager
def loading(name: str, asked: Asked) -> Iterator[None]:
    """Raise our error for whatever goes wrong while a model is loaded."""
    try:
        yield
    except AttnCliError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        shown = safe_label(name)
        text = " ".join(str(error).split())
        if isinstance(error, OSError) and (told := _of_the_system(error)):
            raise ModelError(f"{shown}: {told}") from error
        raise (_known(shown, text, error, asked) or _unknown(name, error)) from error


@contextmanager
def read_from(path: Path) -> Iterator[None]:
    """Raise our error for what the operating system says of a file that is read.

    Raises:
        ReadError: It cannot be opened, or is not a regular file.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ReadError(
                f"{safe_label(str(path))}: not a regular file"
            )  # a named pipe would be waited for
        yield
    except OSError as error:
        if error.strerror is None:
            raise
        raise ReadError(f"{safe_label(str(path))}: {error.strerror}") from error


def first_sentence(error: BaseException) -> str:
    """Return the first whole sentence of what an exception says, in one line that is safe to print.

    >>> first_sentence(ValueError("There is no x.bin in ./m.  Please look at the docs."))
    'There is no x.bin in ./m'
    >>> first_sentence(KeyError("d_model"))
    "KeyError: 'd_model'"
    """
    text = " ".join(str(error).split())
    if not text or isinstance(error, KeyError):
        return safe_label(f"{type(error).__name__}: {text}".rstrip(": "))
    found = _SENTENCE.match(text)
    sentence = (found[1] if found else text).rstrip(".!")
    if len(sentence) > _LONGEST:
        sentence = sentence[:_LONGEST].rpartition(" ")[0] + " …"
    return safe_label(sentence)


def too_long(name: str, length: int, limit: int, *, strides: bool) -> UsageError:
    """Make the error for a text of more tokens than a model reads.

    Args:
        strides: Whether it can be read in windows.
    """
    stride = f"; attncli show --stride {limit // 2} reads it all, in windows" if strides else ""
    return UsageError(
        f"the text has {length:,} tokens; {name} reads at most {limit:,}",
        f"--truncate cuts it to {limit:,}{stride}",
    )


def no_head(name: str) -> ModelError:
    """Make the error for a model that cannot write."""
    return ModelError(
        f"{name}: no language-model head, so it cannot generate", "name a causal or a translation model"
    )


def _of_the_system(error: OSError) -> str | None:
    """Return what the operating system says of a file; None where a library has used its exception."""
    if error.strerror is None or error.filename is None:
        return None
    return f"{safe_label(str(error.filename))}: {error.strerror}"


def _known(name: str, text: str, error: Exception, asked: Asked) -> AttnCliError | None:
    """Return the error for what users meet often."""
    if isinstance(error, ImportError) and (command := _INSTALL.search(text)):
        return ModelError(f"{name}: {first_sentence(error)}", command[0])
    if isinstance(error, ImportError) and (found := _NEEDED.search(text)):
        package = (found[1] or found[2]).lower()
        return ModelError(f"{name}: it needs {package}, which is not installed", f"pip install {package}")
    if "gated repo" in text:
        return ModelError(
            f"{name}: the model is gated", "log in with `hf auth login` after access was granted"
        )
    if asked.head and "Unrecognized configuration class" in text:
        return no_head(name)
    if "trust_remote_code" in text:
        return ModelError(
            f"{name}: the model needs custom code to run",
            "--trust-remote-code runs it; use it only if you trust the source",
        )
    if "attn_implementation" in text or "attention implementation" in text.lower():
        return UsageError(f"--attention {asked.attention}: {first_sentence(error)}", "try sdpa or eager")
    if asked.spread and "offload" in text:
        return UsageError(
            f"{name}: the model does not fit in memory, and no folder for the rest was given",
            "--offload-folder DIR, on a disk with room for it",
        )
    if isinstance(error, RuntimeError | AssertionError) and ("device" in text.lower() or "CUDA" in text):
        # AssertionError: torch on a device that it was not built for
        return UsageError(f"--device {asked.device}: {first_sentence(error)}")
    return _of_the_config(name, text)


def _of_the_config(name: str, text: str) -> ModelError | None:
    """Return the error for a config of a model that transformers, or attncli, does not load."""
    if "does not recognize this architecture" in text:
        found = _ARCHITECTURE.search(text)
        kind = f' "{safe_label(found[1])}"' if found else ""
        return ModelError(
            f"{name}: the installed transformers does not know its kind of model{kind}",
            "a newer one may: pip install --upgrade transformers",
        )
    if "Unrecognized model" in text:
        return ModelError(f"{name}: its config.json does not say which kind of model it is (model_type)")
    if found := _CONFIG_CLASS.search(text):
        return ModelError(
            f"{name}: transformers has no AutoModel for its {found[1]}, and attncli cannot show other models yet"
        )
    return None


def _unknown(name: str, error: Exception) -> ModelError:
    if isinstance(error, OSError) and not Path(name).expanduser().exists():
        return missing_model(name, "the hub did not answer, or does not have it")
    if is_gguf(name):
        told = f"{safe_label(name)}: no GGUF file that can be read, or cut short: {first_sentence(error)}"
        return ModelError(told, "download it again")
    old = too_old()
    told = f"{safe_label(name)}: transformers cannot load it: {first_sentence(error)}"
    return ModelError(told, old and f"attncli {old}")
