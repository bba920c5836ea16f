"""Pre-processing: pictures as a model wants them, by its `preprocessor_config.json`.

First the geometry (resize, centre crop), which keeps bytes and is done by transformers' processor with Pillow, as
CLIP itself did, and not at all where a picture already has the model's size. Then rescale and normalise, which is
the same few operations for a whole batch on any device. The two together are what the processor does in one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, MissingExtra
from smelt.files.reading import read_json

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Preprocess"]

_BICUBIC = 3
_PADS = "LlavaImageProcessor"
"""The processor whose `do_pad` means a square; that of others means other things."""


@dataclass(frozen=True)
class Preprocess:
    """What a model's processor does to a picture. Equal ones give equal pixels."""

    resize: tuple[int, int] | int | None
    """Height and width, or the length of the shorter side, or nothing."""
    crop: tuple[int, int] | None
    resample: int
    rescale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: bool = False
    """Whether a picture is made a square first, with borders of the mean colour, as LLaVA 1.5 does."""

    @classmethod
    def load(cls, folder: Path) -> Preprocess | None:
        """The pre-processing of a model folder; nothing where the folder does not say."""
        for name in ("preprocessor_config.json", "processor_config.json"):
            content = read_json(folder / name) if (folder / name).is_file() else None
            if isinstance(content, dict) and name == "processor_config.json":
                content = content.get("image_processor")
            if isinstance(content, dict):
                return cls.parse(content, str(folder / name))
        return None

    @classmethod
    def parse(cls, config: Mapping[str, Any], where: str = "preprocessor_config.json") -> Preprocess:
        """Read the words of a preprocessor_config.json; old files give one number for a size."""
        try:
            normalise = config.get("do_normalize", True)
            crops = config.get("do_center_crop", "crop_size" in config)  # processors that never crop do not say so
            return cls(
                resize=_side(_one_view(config)) if config.get("do_resize", True) else None,
                crop=_square(config["crop_size"]) if crops else None,
                resample=int(config.get("resample", _BICUBIC)),
                rescale=float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0,
                mean=tuple(map(float, config["image_mean"])) if normalise else (0.0, 0.0, 0.0),
                std=tuple(map(float, config["image_std"])) if normalise else (1.0, 1.0, 1.0),
                pad=bool(config.get("do_pad", False)) and str(config.get("image_processor_type")).startswith(_PADS),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptFile(f"{where}: does not describe a CLIP image processor ({error!r})") from None

    def keeps(self, height: int, width: int) -> bool:
        """Whether the geometry leaves a picture of this size as it is."""
        resized = self.resize in (None, (height, width), min(height, width))
        return resized and self.crop in (None, (height, width))

    def output(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture afterwards."""
        if self.crop is not None:
            return self.crop
        if isinstance(self.resize, int):
            short, long = sorted((height, width))
            other = int(self.resize * long / short)
            return (self.resize, other) if height <= width else (other, self.resize)
        return self.resize or (height, width)

    def shape(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Resize and crop pictures [height, width, 3] of any sizes; one array comes back."""
        import numpy as np

        if self.pad:
            pictures = [_square_picture(picture, self.mean) for picture in pictures]
        if all(self.keeps(*picture.shape[:2]) for picture in pictures):
            return np.ascontiguousarray(np.stack(pictures))
        done = self._processor(images=list(pictures), return_tensors="np", input_data_format="channels_last")
        return np.ascontiguousarray(done["pixel_values"].astype(np.uint8).transpose(0, 2, 3, 1))

    def normalise(self, pictures: Tensor, dtype: torch.dtype) -> Tensor:
        """Bytes [n, height, width, 3] -> numbers [n, 3, height, width], on the device where the bytes are."""
        import torch

        mean = torch.tensor(self.mean, device=pictures.device)
        std = torch.tensor(self.std, device=pictures.device)
        values = pictures.to(torch.float32).mul_(self.rescale).sub_(mean).div_(std)
        return values.permute(0, 3, 1, 2).to(dtype).contiguous()

    @functools.cached_property
    def _processor(self) -> Any:
        try:
            import transformers
        except ImportError:
            raise MissingExtra("evaluating CLIP models needs transformers: pip install 'smelt[clip]'") from None
        # Version 5 calls the one that works with Pillow so; before, it was the one without `Fast`.
        name = "CLIPImageProcessorPil" if hasattr(transformers, "CLIPImageProcessorPil") else "CLIPImageProcessor"
        height, width = self.crop or (1, 1)
        return getattr(transformers, name)(
            do_resize=self.resize is not None,
            size=_words(self.resize),
            resample=self.resample,
            do_center_crop=self.crop is not None,
            crop_size={"height": height, "width": width},
            do_rescale=False,
            do_normalize=False,
            do_convert_rgb=True,
        )


def _square_picture(picture: NDArray[np.uint8], mean: Sequence[float]) -> NDArray[np.uint8]:
    """A picture [height, width, 3] in the middle of a square of the mean colour."""
    import numpy as np

    height, width = picture.shape[:2]
    side = max(height, width)
    whole = np.full((side, side, 3), [int(255 * one) for one in mean], dtype=np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    whole[top : top + height, left : left + width] = picture
    return whole


def _one_view(config: Mapping[str, Any]) -> Any:
    """The size of a whole picture. Processors that can cut large ones into tiles say the longest edge of a view."""
    longest = (config.get("max_image_size") or {}).get("longest_edge")
    return {"height": longest, "width": longest} if longest else config["size"]


def _side(size: Any) -> tuple[int, int] | int:
    if isinstance(size, Mapping):
        return int(size["shortest_edge"]) if size.get("shortest_edge") else _square(size)
    return int(size)


def _square(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    return int(size), int(size)


def _words(resize: tuple[int, int] | int | None) -> dict[str, int]:
    if isinstance(resize, tuple):
        return {"height": resize[0], "width": resize[1]}
    return {"shortest_edge": resize or 1}
