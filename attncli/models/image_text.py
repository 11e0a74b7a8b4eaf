"""A text with pictures as the input of a model that reads both: its own processor places their tokens in the text."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attncli.cli.options import GenerationOptions
from attncli.errors import CaptureError, ModelError, UsageError
from attncli.models.generation import GeneratedSource, Sampling, write
from attncli.models.image_layout import Facts, Run, View, merged, runs_of, views_of
from attncli.models.image_prompt import image_id, load_processor, mark_of, write_prompt
from attncli.models.input_kinds import check_takes_images
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.picture_file import Photo, read_photo
from attncli.models.prepared_text import Prepared, token_limit, without_row
from attncli.models.pretrained import PretrainedSource
from attncli.models.python_tokenizers import read_ids
from attncli.models.refusals import refused_as
from attncli.models.vision import visible
from attncli.record import Kind, Tokens
from attncli.view import Picture

_RESAMPLER = re.compile(r"Resampler|Perceiver|QFormer|ImageToTextProjection|AriaProjector")
"""Classes of modules that turn all of a picture into a few vectors, which are no places of it."""
_LARGEST_SHOWN = 1024


@dataclass
class _Written:
    """What a processor has made of a text and pictures, and how.

    Args:
        texts: What it wrote for each picture.
        fine: For each picture the number of tokens and rows after the whole of it, where it counted them.
    """

    made: Any
    texts: list[str]
    fine: list[tuple[int, int]]


def open_image_text(
    name: str,
    options: LoadOptions,
    text: str,
    images: Sequence[str],
    writing: GenerationOptions | None,
    seed: int,
    *,
    verify: bool,
) -> PretrainedSource | GeneratedSource:
    """Open a model that reads a text with pictures, and may go on writing.

    Args:
        images: Names of the pictures' files.
        writing: What the model is to write, and whether the text is a message to it.
        seed: Of what it draws.

    Raises:
        AttnCliError: The model or a picture is not available, or they do not go together.
    """
    check_takes_images(name, options)
    photos = [read_photo(Path(image)) for image in images]
    tokens = writing.generate if writing is not None else None
    loaded = load(name, replace(options, head=bool(tokens)))
    chat, system = (False, None) if writing is None else (writing.chat, writing.system)
    prepared = prepare_image_text(loaded, text, photos, chat=chat, system=system)
    if writing is None or not tokens:
        return PretrainedSource(loaded, prepared, verify=verify)
    return write(loaded, prepared, Sampling(tokens, writing.temperature, seed), verify=verify)


def prepare_image_text(
    loaded: Loaded, text: str, photos: Sequence[Photo], *, chat: bool = False, system: str | None = None
) -> Prepared:
    """Make a text and pictures ready as a model's processor does.

    Args:
        chat: Whether the text is a message even where it says itself where its pictures stand.
        system: What the system says before it.

    Raises:
        UsageError: The text has another number of image marks than there are pictures, or is too long.
        ModelError: The model's processor is not available, or does not take them.
        CaptureError: The model has no image tokens among those of the text.
    """
    if loaded.model.config.is_encoder_decoder:
        raise CaptureError(
            f"{loaded.name} ({loaded.family}) reads pictures and texts in two stacks, not in one"
        )
    processor = load_processor(loaded)
    mark = mark_of(loaded, processor)
    prompt, how = write_prompt(loaded, processor, text, mark, len(photos), chat=chat, system=system)
    written = _processed(loaded, processor, prompt, photos)
    made = written.made
    ids: list[int] = made["input_ids"][0].tolist()
    _check(loaded, ids)
    tokens, pictures, notes = _laid_out(loaded, processor, written, ids, photos)
    taken = inspect.signature(loaded.model.forward).parameters
    inputs = {"input_ids": made["input_ids"], **made}
    inputs = {
        name: _placed(value, loaded)
        for name, value in inputs.items()
        if name in taken and name != "labels" and isinstance(value, torch.Tensor)
    }
    photo_notes = tuple(note for photo in photos for note in photo.notes)
    axes: dict[Kind, Tokens] = {"decoder": tokens}
    return Prepared(inputs, axes, axes, (*photo_notes, *notes, how), pictures=pictures)


def _processed(loaded: Loaded, processor: Any, prompt: str, photos: Sequence[Photo]) -> _Written:
    """Let a processor do its work, and look on."""
    bos = getattr(processor.tokenizer, "bos_token", None)
    given = {"add_special_tokens": False} if bos and prompt.startswith(bos) else {}
    texts: list[str] = []
    fine: list[tuple[int, int]] = []
    with (
        warnings.catch_warnings(action="ignore"),
        _overheard(processor, "replace_image_token", texts),
        _overheard(processor, "_get_unpadded_features", fine),
        refused_as(lambda why: UsageError(f"{loaded.name}: its processor does not take this: {why}")),
    ):
        made = processor(text=prompt, images=[photo.image for photo in photos], return_tensors="pt", **given)
    return _Written(made, texts, fine)


@contextmanager
def _overheard(owner: Any, name: str, answers: list[Any]) -> Iterator[None]:
    """Note what a method returns, where there is one."""
    method = getattr(owner, name, None)
    if method is None:
        yield
        return

    def listening(*given: Any, **named: Any) -> Any:
        answer = method(*given, **named)
        answers.append(answer)
        return answer

    setattr(owner, name, listening)
    try:
        yield
    finally:
        delattr(owner, name)


def _check(loaded: Loaded, ids: Sequence[int]) -> None:
    limit = token_limit(loaded)
    if len(ids) > limit:
        raise UsageError(
            f"text and pictures have {len(ids):,} tokens; {loaded.name} reads at most {limit:,}",
            "shorten the text, or make the pictures smaller",
        )
    if (lacking := without_row(loaded, ids)) is not None:
        raise ModelError(f"{loaded.name}: {lacking}", "its tokenizer was extended and the model was not")


def _laid_out(
    loaded: Loaded, processor: Any, written: _Written, ids: Sequence[int], photos: Sequence[Photo]
) -> tuple[Tokens, tuple[Picture, ...], tuple[str, ...]]:
    """Name the tokens of the text and of the pictures; return them, the pictures' views, and notes on these."""
    number = image_id(loaded, processor)
    tokenizer = processor.tokenizer
    runs = runs_of([one == number for one in ids], [str(one) for one in tokenizer.convert_ids_to_tokens(ids)])
    tokens = list(read_ids(tokenizer, ids))
    pictures: list[Picture] = []
    notes: list[str] = []
    spelled = str(tokenizer.convert_ids_to_tokens(number))
    groups = _by_picture(loaded, runs, [text.count(spelled) for text in written.texts], len(photos))
    for index, (photo, group) in enumerate(zip(photos, groups, strict=True)):
        name = "img" if index == 0 else f"img{index + 1}"
        views, labels = views_of(group, _facts(loaded, processor, written, index, photo, len(photos)))
        for place, label in labels.items():
            text = f"{name} {label}".strip()
            tokens[place] = replace(
                tokens[place], id=None, text=text, label=text, special=False, bytes=None, segment=name
            )
        pixels = _pixels(processor, written, index, photo, len(photos))
        for view in merged(views):
            called = f"{name} {view.name}".strip()
            pictures.append(Picture(pixels, view.rows, view.columns, -1, view.places, called))
        notes.append(_note(name, photo, views))
    return tuple(tokens), tuple(pictures), tuple(notes)


def _by_picture(loaded: Loaded, runs: Sequence[Run], counts: Sequence[int], pictures: int) -> list[list[Run]]:
    """Share the runs of image tokens out among the pictures.

    Args:
        counts: How many tokens each has; where that is not known, all have as many.
    """
    total = sum(len(run.places) for run in runs)
    if not total:
        raise CaptureError(
            f"{loaded.name} ({loaded.family}): its processor puts no image tokens into the text"
        )
    if len(counts) != pictures or sum(counts) != total:
        if total % pictures:
            raise CaptureError(
                f"{loaded.name} ({loaded.family}): which image tokens are whose is not to be seen"
            )
        counts = [total // pictures] * pictures
    groups: list[list[Run]] = []
    rest = list(runs)
    for count in counts:
        group: list[Run] = []
        while count > 0 and rest:
            run = rest.pop(0)
            if len(run.places) > count:
                cut = run.places.start + count
                rest.insert(0, Run(range(cut, run.places.stop), ()))
                run = Run(range(run.places.start, cut), run.before)
            group.append(run)
            count -= len(run.places)
        groups.append(group)
    return groups


def _facts(
    loaded: Loaded, processor: Any, written: _Written, index: int, photo: Photo, pictures: int
) -> Facts:
    made, pixels = written.made, written.made.get("pixel_values")
    shape = tuple(getattr(pixels, "shape", ()))
    entries = shape[0] * shape[1] if len(shape) == 5 else (shape[0] if len(shape) == 4 else pictures)
    fine = written.fine[index] if len(written.fine) == pictures else None
    length = next(
        (
            found
            for name in ("image_seq_length", "image_seq_len")
            if isinstance(found := getattr(processor, name, None), int)
        ),
        None,
    )
    return Facts(
        size=(photo.image.height, photo.image.width),
        grid=_grid(processor, made, index),
        fine=None if fine is None or not fine[1] else (int(fine[1]), int(fine[0]) // int(fine[1])),
        tile_length=length,
        tiled=entries > pictures,
        resampled=any(_RESAMPLER.search(type(module).__name__) for module in loaded.model.modules()),
    )


def _grid(processor: Any, made: Mapping[str, Any], index: int) -> tuple[int, int] | None:
    """Return how many tokens a picture has down and across, where the processor tells its patches (Qwen2-VL)."""
    patches = made.get("image_grid_thw")
    if patches is None or index >= len(patches):
        return None
    merge = int(getattr(processor.image_processor, "merge_size", 1) or 1)
    times, down, across = (int(one) for one in patches[index])
    return times * (down // merge), across // merge


def _placed(value: torch.Tensor, loaded: Loaded) -> torch.Tensor:
    return value.to(loaded.device, loaded.model.dtype if value.is_floating_point() else None)


def _pixels(processor: Any, written: _Written, index: int, photo: Photo, pictures: int) -> Any:
    """Return a picture to be drawn: itself or, where the processor cuts its edges off, what is left."""
    values = written.made.get("pixel_values")
    if getattr(processor.image_processor, "do_center_crop", False) and getattr(values, "ndim", 0) == 4:
        if len(values) == pictures:
            return visible(processor.image_processor, values[index])
    shown = photo.image.copy()
    shown.thumbnail((_LARGEST_SHOWN, _LARGEST_SHOWN))
    return np.asarray(shown)


def _note(name: str, photo: Photo, views: Sequence[View]) -> str:
    size = f"{name}: {photo.name}, {photo.image.width}×{photo.image.height} pixels"
    tiles = [view for view in views if view.tile is not None]
    others = [view for view in views if view.tile is None and (view.rows or len(view.places) > 1)]
    parts = [f"{len(tiles)} tiles of {tiles[0].columns}×{tiles[0].rows} patches"] if tiles else []
    for view in others:
        what = (
            f"{view.columns}×{view.rows} patches"
            if view.rows
            else f"{len(view.places)} tokens without a place"
        )
        parts.append(f"{what}{f' ({view.name})' if view.name else ''}")
    return f"{size}, {' and '.join(parts)}"
