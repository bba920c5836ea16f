"""NeuLig's models and data under their public names, in small.

    openai/clip-vit-*, tanganke/clip-vit-*_TASK      FusionBench's, which the paper's seven data sets have among twenty
    timm/resnet50_clip.openai                        OpenAI's residual network as open_clip names it
    tanganke/gtsrb, ylecun/mnist, ...                the data sets

The paper's own experts are not public: `tuned_resnet` makes what `smelt finetune` would leave, a picture tower of the
same kind whose numbers moved a little.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from stand_in_hub.contents import Contents
from stand_in_hub.published import clip, mll

RESNET = "timm/resnet50_clip.openai"
TASKS = ("gtsrb", "cifar100", "resisc45", "cifar10", "mnist", "stl10", "svhn")


def fill(contents: Contents) -> None:
    """Put all of it there, once for a server; what nobody asks for is never made."""
    if contents.find("models", RESNET) is None:
        mll.fill(contents, {RESNET: "RN50"})
    if contents.find("models", "openai/clip-vit-base-patch32") is None:
        clip.fill(contents)


def tuned_resnet(base: Path, folder: Path, seed: int, amount: float = 0.05) -> Path:
    """A whole open_clip folder whose picture tower differs from the base's by noise; counters and statistics too."""
    import torch
    from safetensors.torch import load_file, save_file

    folder.mkdir(parents=True)
    shutil.copy(base / "open_clip_config.json", folder)
    draw = torch.Generator().manual_seed(seed)
    state = load_file(base / "open_clip_model.safetensors")
    for name, tensor in state.items():
        if name.startswith("visual.") and tensor.is_floating_point() and not name.endswith("running_var"):
            state[name] = tensor + amount * torch.randn(tensor.shape, generator=draw)
    save_file(state, folder / "open_clip_model.safetensors")
    return folder
