"""Models of the zoo by name: found, listed, and missed in words that say what to do."""

import sys
import types

import pytest

from checkpoints import random_state, write_model
from smelt.engine.convert.pack import pack
from smelt.errors import MissingExtra, RecipeError, unknown
from smelt.models.references import open_ref, ref_seen_from
from smelt.models.zoo.catalogue import zoo_folder, zoo_models
from smelt.recipe.reference_name import ref_name

CARD = """---
license: apache-2.0
---
# Clip tiny

A small CLIP model for
pictures of 32x32. It was trained on icons.
"""


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A zoo of a base and one expert, packed with 4 bits: the change of 256 numbers and their 16 scales."""
    base = random_state(0, {"w": (16, 16), "b": (16,)})
    home = tmp_path / "zoo"
    write_model(home / "clip-tiny", base, README__md=CARD)
    tuned = write_model(tmp_path / "tuned", {**base, "w": base["w"] + random_state(1, {"w": (16, 16)})["w"]})
    pack(tuned, base=home / "clip-tiny", out=home / "clip-tiny-photos")
    module = types.ModuleType("smelt_zoo")
    module.models = lambda: {name: home / name for name in ("clip-tiny", "clip-tiny-photos")}
    monkeypatch.setitem(sys.modules, "smelt_zoo", module)
    return home


def test_a_model_of_the_zoo_is_opened_by_its_name(zoo):
    assert open_ref("zoo:clip-tiny").folder == zoo / "clip-tiny"
    assert open_ref("zoo:clip-tiny-photos").tensors.keys() == {"w", "b"}


def test_a_model_is_named_as_in_the_zoo(zoo):
    assert ref_name("zoo:clip-tiny-photos") == "clip-tiny-photos"


def test_an_unknown_name_is_refused_with_the_nearest_and_where_all_are_listed(zoo):
    near = r"'clip-tiny-photo' \(did you mean 'clip-tiny-photos'\?\); `smelt\.list_models\(\)` lists them$"
    with pytest.raises(RecipeError, match=near):
        open_ref("zoo:clip-tiny-photo")


def test_of_very_many_names_a_dozen_is_listed():
    said = unknown("model", "zzz", [f"m{number:02}" for number in range(20)])
    assert said.endswith("(there is: m00, m01, m02, m03, m04, m05, m06, m07, m08, m09, m10, m11 and 8 more)")


def test_without_the_zoo_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "smelt_zoo", None)
    for look in (lambda: open_ref("zoo:clip-tiny"), lambda: zoo_folder("x"), zoo_models):
        with pytest.raises(MissingExtra, match=r"pip install \./zoo"):
            look()


def test_a_model_of_the_part_that_is_not_installed_says_what_to_install(zoo, monkeypatch):
    names = {"models": ["clip-mini", "clip-tiny"], "language": ["maths"]}
    monkeypatch.setattr(sys.modules["smelt_zoo"], "names_in_more", lambda: names, raising=False)
    with pytest.raises(MissingExtra, match=r"^zoo:clip-mini lies in the rest .* `pip install \./zoo-more`"):
        open_ref("zoo:clip-mini")
    assert open_ref("zoo:clip-tiny").tensors.keys() == {"w", "b"}
    with pytest.raises(RecipeError, match=r"'clip-minni' \(did you mean 'clip-mini'\?\)"):
        open_ref("zoo:clip-minni")


def test_every_model_is_listed_with_its_size_and_the_first_sentence_of_its_card(zoo):
    base, photos = zoo_models()
    assert (base.name, base.kind, base.parameters) == ("clip-tiny", "model", 272)
    assert base.description == "A small CLIP model for pictures of 32x32."
    assert base.bytes == (zoo / "clip-tiny" / "model.safetensors").stat().st_size
    assert (photos.name, photos.kind, photos.parameters) == ("clip-tiny-photos", "delta of clip-tiny, 4 bits", 272)
    assert photos.bytes == sum(
        (zoo / "clip-tiny-photos" / f"delta.{end}").stat().st_size for end in ("safetensors", "json")
    )
    assert photos.description.startswith("A delta pack: the change from ../clip-tiny")


def test_a_pack_over_a_model_of_the_zoo_names_it_by_its_zoo_name(zoo, tmp_path):
    done = pack(tmp_path / "tuned", base="zoo:clip-tiny", out=tmp_path / "pack")
    assert done.base == "zoo:clip-tiny"
    assert open_ref(str(tmp_path / "pack")).tensors.keys() == {"w", "b"}


def test_paths_are_seen_from_the_folder_and_names_stay(tmp_path):
    for name in ("models/base", "models/lora"):
        (tmp_path / name).mkdir(parents=True)
    here = tmp_path / "packs" / "one"
    assert ref_seen_from(f"dir:{tmp_path}/models/base", here) == "../../models/base"
    assert (
        ref_seen_from(f"{tmp_path}/models/base+{tmp_path}/models/lora", here) == "../../models/base+../../models/lora"
    )
    assert ref_seen_from("hf:org/name@v1", here) == "hf:org/name@v1"
    assert ref_seen_from("zoo:clip-tiny", here) == "zoo:clip-tiny"
