"""Which models the zoo has, and for each: what kind it is, its base, its task, and the record of the run that made it.

records/ holds one file for each run, as the training script wrote it: recipe, device, and the accuracies of each model
before and after packing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import fetch
from tasks import TASKS

RECORDS = fetch.HERE / "records"
MIXTURES = {
    "icons": ("icons",),
    "emoji": ("emoji",),
    "sketches": ("sketches",),
    "photos": ("photos", "clothing"),
    "signs": ("digits", "letters", "flags"),
}
"""What the pictures of a mixture are of: named ones and training ones of these tasks."""
OTHERS = tuple(TASKS)[:6]
"""Tasks with an expert of another origin. Not all eight: such a tower is new in every number, so its pack needs 4 bits and
takes twice the room of an expert's, in a zoo that has to stay below 150 MB with the families still to come."""


@dataclass(frozen=True)
class Model:
    name: str
    kind: str
    """`base`, `expert`, `second`, `resnet-base`, `resnet-expert`, `resnet-other`, `mini`, `mixture`, `mini-expert`, `small-base`,
    `small-expert` or `reader`; cards.py has a text for each."""
    base: str
    """The name of the model that its pack changes; its own for a base, and for a reader the base whose pictures it reads about."""
    record: str
    script: str
    task: str = ""

    @property
    def told(self) -> dict:
        """The record of its run."""
        found: dict = json.loads((RECORDS / f"{self.record}.json").read_text(encoding="utf-8"))
        return found


def shelf() -> dict[str, Model]:
    """All models by name, bases before what is made from them."""
    vit, rn, mini = "clip-tiny", "clip-tiny-rn", "clip-mini"
    models = [
        Model(vit, "base", vit, "training", "train.py"),
        *(Model(f"{vit}-{task}", "expert", vit, "training", "train.py", task) for task in TASKS),
        *(Model(f"{vit}-{task}-b", "second", vit, "second", "second.py", task) for task in TASKS),
        Model(rn, "resnet-base", rn, "resnet-base", "resnet.py"),
        *(Model(f"{rn}-{task}", "resnet-expert", rn, "resnet-experts", "resnet.py", task) for task in TASKS),
        *(Model(f"{rn}-{task}-own", "resnet-other", rn, "resnet-others", "resnet.py", task) for task in OTHERS),
        Model(mini, "mini", mini, "mixtures", "mixtures.py"),
        *(Model(f"{mini}-{kind}", "mixture", mini, "mixtures", "mixtures.py") for kind in MIXTURES),
    ]
    return {model.name: model for model in models}
