"""open_clip's models as a family: a folder with `open_clip_config.json`, computed by the library itself.

Vision transformers of CLIP's own kind are read under the names of transformers' CLIPModel where they can be (the view
`open_clip` of `formats`), and merge there. This family is for using a model as it is, whatever its towers are: residual
networks, ConvNeXt, EVA and SigLIP (timm), CoCa, text towers of transformers. Of those that keep open_clip's names the
picture tower is merged; a fine-tune is then its picture tower over the rest of its base (`text_from`).
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.errors import MissingExtra, RecipeError, SmeltError, shortened
from smelt.files.reading import read_json_table
from smelt.formats.open import is_pickle
from smelt.models.families.family import Family, families
from smelt.models.families.model_input import ModelInput, read_all
from smelt.models.families.network import sharing_copy
from smelt.models.families.open_clip.files import (
    CONFIG,
    TEXT_CONFIG,
    TOKENIZER,
    find_weights,
    preprocess_of,
    read_model_config,
)
from smelt.models.families.open_clip.library import open_clip
from smelt.models.families.open_clip.model import OpenClip
from smelt.models.families.open_clip.network import VISION

__all__ = ["OPEN_CLIP", "OpenClipFamily"]


class OpenClipFamily(Family):
    """How open_clip's models are known and loaded."""

    name = "open_clip"
    model_kinds = frozenset({"classifier"})
    merged = (f"{VISION}*",)
    loaded_type = OpenClip

    def recognises(self, model: ModelInput) -> bool:
        """By open_clip's config, where none of transformers lies beside: then it is a CLIP that can be merged, too."""
        there = model.folder is not None and (model.folder / CONFIG).is_file()
        return there and "model_type" not in (model.config or {})

    def load(
        self,
        model: Any,
        *,
        text_from: Any = None,
        device: str = "cpu",
        dtype: str = "float32",
        allow_pickle: bool = False,
    ) -> OpenClip:
        """A model from its folder. `allow_pickle`: weights that are no safetensors are read with weights_only."""
        if isinstance(model, OpenClip):
            return model
        with contextlib.closing(self._open(model, "model", allow_pickle)) as given:
            if text_from is not None:
                rest = self.load(text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
                return _over(given, rest)
            if given.folder is None:
                raise RecipeError(f"{given.label}: an open_clip model is loaded from its folder, with {CONFIG}")
            return _load(given.label, given.folder, device, dtype, allow_pickle)


OPEN_CLIP = OpenClipFamily()
families[OPEN_CLIP.name] = OPEN_CLIP


def _load(label: str, folder: Path, device: str, dtype: str, allow_pickle: bool) -> OpenClip:
    content = read_model_config(folder)
    weights = find_weights([path.name for path in folder.iterdir()])
    if weights is None:
        raise RecipeError(f"{label}: there are no weights beside {CONFIG} (open_clip_model.safetensors)")
    if is_pickle(weights) and not allow_pickle:
        raise RecipeError(
            f"{label}: its weights are a pickle ({weights}), which can run code when opened; write "
            f"{option('allow_pickle')} to have it read with weights_only"
        )
    library = open_clip()
    with _buildable(label), _as_the_library_reads_it(folder, content, weights) as place:
        model = library.create_model(f"local-dir:{place}", require_pretrained=True, pretrained_text=False)
        tokenizer = library.get_tokenizer(f"local-dir:{place}")
    model = model.requires_grad_(False).eval()
    words = {**content.get("preprocess_cfg", {})}
    vision, rest = _hashes(model)
    return OpenClip(
        label=label,
        model=model.to(device),
        config=content["model_cfg"],
        preprocess=preprocess_of(words, getattr(model.visual, "image_size", words.get("size", 224)), label),
        tokenizer=tokenizer,
        tokenizer_hash=_tokenizer_hash(folder, content["model_cfg"]["text_cfg"]),
        device=device,
        dtype=dtype,
        hash=hashlib.sha256(f"{vision}{rest}".encode()).hexdigest(),
        rest_hash=rest,
        folder=folder,
        width=int(content["model_cfg"]["embed_dim"]),
    )


def _over(given: ModelInput, rest: OpenClip) -> OpenClip:
    """A picture tower with everything else of another model."""
    wanted = {name: tensor for name, tensor in rest.model.state_dict().items() if name.startswith(VISION)}
    there = {name: given.info(name).shape for name in given.names if name.startswith(VISION)}
    faults = [f"{name!r} is missing" for name in wanted if name not in there]
    faults += [f"{name!r} belongs to no tower of {rest.label}" for name in there if name not in wanted]
    faults += [
        f"{name!r} is {there[name]}, in {rest.label} {tuple(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in there and there[name] != tuple(tensor.shape)
    ]
    if faults:
        more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
        raise RecipeError(
            f"{given.label}: its picture tower is another one than that of {rest.label}: {faults[0]}{more}"
        )
    state = read_all({name: (given, name) for name in wanted})
    model: Any = sharing_copy(rest.model)
    model.visual = copy.deepcopy(rest.model.visual)
    model.visual.load_state_dict({name.removeprefix(VISION): tensor for name, tensor in state.items()})
    vision, others = _hashes(model)
    return replace(
        rest,
        label=given.label,
        model=model,
        hash=hashlib.sha256(f"{vision}{others}".encode()).hexdigest(),
        folder=given.folder,
        _heads=dict(rest._heads),
    )


@contextlib.contextmanager
def _as_the_library_reads_it(folder: Path, content: Mapping[str, Any], weights: str) -> Iterator[Path]:
    """A folder for the time of loading that names nothing outside it: one file of weights, the text tower's config."""
    model = copy.deepcopy(dict(content["model_cfg"]))
    with tempfile.TemporaryDirectory(prefix="smelt-open-clip-") as made:
        place = Path(made)
        _check_names(folder, model)
        if (folder / TEXT_CONFIG).is_file():
            (place / "text").mkdir()
            (place / "text" / "config.json").write_text(json.dumps(read_json_table(folder / TEXT_CONFIG)))
            model["text_cfg"]["hf_model_name"] = str(place / "text")
            (place / "config.json").symlink_to(place / "text" / "config.json")  # the tokenizer's class is found by it
        for name in (weights, *TOKENIZER):
            if (folder / name).is_file():
                os.symlink((folder / name).resolve(), place / name)
        (place / CONFIG).write_text(json.dumps({**content, "model_cfg": model}))
        if model["text_cfg"].get("hf_tokenizer_name") and not any((place / name).exists() for name in TOKENIZER):
            raise RecipeError(
                f"{folder}: its text tower reads tokens of {model['text_cfg']['hf_tokenizer_name']!r}, whose tokenizer "
                "does not lie in the folder; name the model as open_clip:ORG/NAME, which fetches it"
            )
        yield place


def _check_names(folder: Path, model: Mapping[str, Any]) -> None:
    """Refuse a config that would have something fetched while it is loaded, or looked for elsewhere on this machine."""
    tower, text = model["vision_cfg"].get("timm_model_name"), model["text_cfg"].get("hf_model_name")
    if tower and not re.fullmatch(r"[A-Za-z0-9_.]+", str(tower)):
        raise RecipeError(f"{folder}: timm_model_name {shortened(str(tower))!r} is no name of timm's")
    if text and not (folder / TEXT_CONFIG).is_file():
        raise RecipeError(
            f"{folder}: its text tower is {shortened(str(text))!r}, whose config ({TEXT_CONFIG}) does not lie in the "
            "folder; name the model as open_clip:ORG/NAME, which fetches it"
        )


@contextlib.contextmanager
def _buildable(label: str) -> Iterator[None]:
    """What the libraries say of a model that they cannot build, as one sentence; their warnings are not shown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SmeltError:
        raise
    except Exception as error:  # whatever open_clip, timm and transformers raise
        said = " ".join(str(error).split())
        if "timm" in said and "install" in said:
            raise MissingExtra(f"{label}: its picture tower is timm's: pip install --no-deps timm") from None
        raise RecipeError(f"{label}: open_clip cannot load it ({type(error).__name__}: {shortened(said)})") from error


def _hashes(model: Any) -> tuple[str, str]:
    """Over the picture tower, and over all else; both in float32."""
    digests = {True: hashlib.sha256(), False: hashlib.sha256()}
    for name, tensor in sorted(model.state_dict().items()):
        digest = digests[name.startswith(VISION)]
        digest.update(f"{name}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digests[True].hexdigest(), digests[False].hexdigest()


def _tokenizer_hash(folder: Path, text: Mapping[str, Any]) -> str:
    """Of the tokenizer's files; CLIP's own comes with the library."""
    files = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in TOKENIZER
        if (folder / name).is_file()
    }
    own = bool(text.get("hf_tokenizer_name"))
    content = [files if own else "open_clip", text.get("context_length"), text.get("tokenizer_kwargs")]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
