"""Predictions: pictures of any kind and a selection in, scores out; only the models that it uses are loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile, RecipeError
from smelt.hub.matching.matching import check_letters
from smelt.hub.models.cards import Prediction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.ensembles.per_class import Scale, Weights
    from smelt.hub.selection.select import Selection
    from smelt.models.families.family import Classifier

__all__ = ["as_pixels", "check_templates", "predict"]

_LARGEST = 64_000_000
"""Pixels of one picture, at most: a small file can unfold to a very large one."""


def predict(
    pictures: Sequence[Any],
    selection: Selection,
    load: Callable[[str], Classifier],
    *,
    templates: Sequence[str],
    weights: Weights,
    scale: Scale,
) -> Prediction:
    """Score pictures with the models that were chosen for each class."""
    from smelt.ensembles.per_class import PerClass

    check_templates(templates)
    if not len(pictures):
        raise RecipeError("no picture was given")
    raw = [as_pixels(one, number) for number, one in enumerate(pictures)]
    members = {name: load(name) for name in selection.used}
    scores = PerClass(members, selection.chosen_names, weights=weights, scale=scale).scores_of(
        raw, selection.task.classes, tuple(templates)
    )
    return Prediction(selection.task.classes, scores, scores.argmax(axis=1), selection.used)


def check_templates(templates: Sequence[str]) -> None:
    """A prompt without a place for the class would be the same for all, and every answer a matter of chance."""
    check_letters(templates)
    for one in templates:
        if "{}" not in one:
            raise RecipeError(f"the template {one!r} has no {{}}, where the class's name goes; as 'a photo of a {{}}'")


def as_pixels(picture: Any, number: int = 0) -> NDArray[np.uint8]:
    """A path, a PIL image or an array as [height, width, 3]. Transparent parts become white."""
    if isinstance(picture, str | Path):
        return _read(Path(picture))
    if hasattr(picture, "convert") and hasattr(picture, "size"):
        return _flat(picture)
    array = np.asarray(picture)
    if array.ndim == 2:
        array = np.repeat(array[:, :, None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or not array.size:
        raise RecipeError(
            f"picture {number}: an array of bytes [height, width, 3] is wanted; got {array.dtype} {array.shape}"
        )
    return np.ascontiguousarray(array)


def _read(path: Path) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            if image.width * image.height > _LARGEST:
                raise RecipeError(f"{path}: {image.width} x {image.height} pixels are too many; make it smaller")
            return _flat(image)
    except FileNotFoundError:
        raise RecipeError(f"{path}: there is no such picture") from None
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise CorruptFile(f"{path}: is not a picture that can be read ({type(error).__name__})") from None


def _flat(image: Any) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.array(image.convert("RGB"), dtype=np.uint8)
