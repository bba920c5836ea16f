"""Models of the zoo that have a tower of another one: what is stored of them, packs over them, and their cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smelt_zoo
from zoo_scripts import build

SHARED = """
import json, pathlib, shutil
import smelt_zoo, assemble, distributions
from shelf import Model
there = pathlib.Path({there!r})
distributions.ZOO, distributions.MORE = there / "zoo", there / "more"
assemble.RECORDS = there / "records"
known = smelt_zoo.models()
(there / "zoo" / "models").mkdir(parents=True)
shutil.copytree(known["clip-tiny"], there / "zoo" / "models" / "clip-tiny")
models = [
    Model("clip-small", "small-base", "clip-small", "sizes", "sizes.py"),
    Model("clip-small-icons", "small-expert", "clip-small", "sizes", "sizes.py", "icons"),
]
assemble.shelf = lambda: {{model.name: model for model in models}}
trained = there / "trained"
shutil.copytree(known["clip-mini"], trained / "clip-small")
shutil.copytree(known["clip-mini-icons"], trained / "clip-small-icons")
note = trained / "clip-small-icons" / "delta.json"
note.write_text(note.read_text().replace("../clip-mini", "../clip-small"))
assemble.take(trained)
own = {{path.parent.name: path.parent for path in there.glob("*/models/*/config.json")}}
smelt_zoo.models = lambda: own
"""


def test_a_model_with_anothers_text_tower_is_stored_without_it_and_its_packs_open_over_it(tmp_path: Path) -> None:
    """clip-mini has clip-tiny's text tower, and stands for the one that is made."""
    code = f"""
{SHARED.format(there=str(tmp_path))}
import torch
from smelt.models.references import open_ref
for name, twin in (("clip-small", "clip-mini"), ("clip-small-icons", "clip-mini-icons")):
    states = []
    for source in (open_ref(f"zoo:{{name}}"), open_ref(str(known[twin]))):
        states.append({{key: torch.empty(info.count) for key, info in source.tensors.items()}})
        for key, out in states[-1].items():
            source.read(key, 0, out)
    print(states[0].keys() == states[1].keys(), all(torch.equal(states[0][key], states[1][key]) for key in states[0]))
print(sorted(path.name for path in own["clip-small"].iterdir()))"""
    said = build(code, SMELT_CACHE=str(tmp_path / "cache")).splitlines()
    assert said[:2] == ["True True"] * 2
    files = "config.json origin.json part.safetensors preprocessor_config.json tokenizer.json tokenizer_config.json"
    assert said[2] == str(files.split())
    stored = tmp_path / "more" / "models"
    whole = smelt_zoo.models()["clip-mini"] / "model.safetensors"
    assert (stored / "clip-small" / "part.safetensors").stat().st_size < 0.6 * whole.stat().st_size
    assert json.loads((stored / "clip-small-icons" / "delta.json").read_text())["base"]["ref"] == "zoo:clip-small"


def test_a_tower_that_is_not_the_other_models_is_refused(tmp_path: Path) -> None:
    """clip-tiny-rn's text tower is its own."""
    code = SHARED.format(there=str(tmp_path)).replace('known["clip-mini"], trained', 'known["clip-tiny-rn"], trained')
    code = code.replace(
        "assemble.take(trained)", "try:\n    assemble.take(trained)\nexcept SystemExit as e:\n    print(e)"
    )
    assert "clip-small: text_" in (said := build(code))
    assert said.endswith("is not that of zoo:clip-tiny")


@pytest.mark.parametrize("kind", ["mini-expert", "small-base", "small-expert", "reader"])
def test_every_new_kind_has_a_card(kind: str) -> None:
    names = {"mini-expert": "clip-mini-icons-expert", "small-base": "clip-small", "small-expert": "clip-small-icons"}
    code = f"""
import cards
from shelf import Model
from tasks import TASKS
words = "hidden layers steps batch scale_cap expert_steps expert_batch expert_bits seed length".split()
recipe = dict.fromkeys(words, 2) | dict.fromkeys(["rate", "small_rate", "mini_rate", "as_before"], 1e-3)
Model.told = property(lambda self: {{"recipe": recipe, "device": "cpu"}})
base = {{"small-base": "clip-small", "small-expert": "clip-small", "reader": "clip-tiny"}}.get({kind!r}, "clip-mini")
task = "icons" if "expert" in {kind!r} else ""
model = Model({names.get(kind, "clip-tiny-reader")!r}, {kind!r}, base, "none", "some.py", task)
scores = {{name: {{one: (0.5, 10) for one in TASKS}} for name in (model.name, base)}}
print(cards.card(model, scores))"""
    card = build(code)
    assert f"# {names.get(kind, 'clip-tiny-reader')}" in card
    assert "licence" in card
    assert "| icons | 50.0 | 50.0 | 10 |" in card
    assert ("Stored as a 2-bit change" in card) == kind.endswith("expert")
    assert ("is not stored twice" in card) == (kind in ("small-base", "reader"))
