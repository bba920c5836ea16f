"""Single files of diffusion models: told apart, merged, and written as one file in the layout that they came in."""

from unittest import mock

import pytest
import torch
from diffusers import FluxTransformer2DModel, StableDiffusionPipeline
from diffusers.loaders.single_file_utils import (
    convert_flux_transformer_checkpoint_to_diffusers,
    convert_ldm_unet_checkpoint,
)
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import checkpoints
import smelt
from diffusion_files import WIDTH, flux_state, sd3_state, sd15_state, sdxl_state, write_file
from pipelines import make_pipeline, picture, write_pipeline
from smelt.errors import IncompatibleModels, OutputError, RecipeError
from smelt.formats.diffusion.unet_names import file_names

pytestmark = pytest.mark.filterwarnings("ignore")

STATES = {
    "SD1.5": lambda seed: sd15_state(seed)[0],
    "SDXL": sdxl_state,
    "SD3": sd3_state,
    "Flux": flux_state,
}
UNMERGED = ("first_stage_model.", "vae.", "betas")


@pytest.mark.parametrize("kind", STATES)
def test_a_merge_of_files_is_one_file_in_the_same_layout(tmp_path, kind):
    states = [STATES[kind](seed) for seed in (0, 1)]
    files = [write_file(tmp_path / f"{name}.safetensors", s) for name, s in zip(("one", "two"), states, strict=True)]
    smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    made = load_file(tmp_path / "merged.safetensors")
    assert made.keys() == states[0].keys()
    for name, first in states[0].items():
        alone = name.startswith(UNMERGED) or not first.is_floating_point()
        assert torch.equal(made[name], first if alone else (first + states[1][name]) / 2), name
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "merged.safetensors",
        "one.safetensors",
        "two.safetensors",
    ]
    assert smelt.inspect(tmp_path / "merged.safetensors").format == f"safetensors, {kind} single file"


def test_a_pipeline_from_the_merged_file_draws_what_weights_merged_by_hand_draw(tmp_path):
    states, pipelines = zip(*(sd15_state(seed) for seed in (0, 1)), strict=True)
    files = [write_file(tmp_path / f"{seed}.safetensors", state) for seed, state in enumerate(states)]
    smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    first, second = pipelines
    first.save_pretrained(tmp_path / "config")
    loaded = StableDiffusionPipeline.from_single_file(
        tmp_path / "merged.safetensors", config=str(tmp_path / "config"), vae=first.vae, local_files_only=True
    )
    for name in ("unet", "text_encoder"):
        ours, theirs = getattr(first, name), getattr(second, name).state_dict()
        both = {
            key: (tensor + theirs[key]) / 2 if tensor.is_floating_point() else tensor
            for key, tensor in ours.state_dict().items()
        }
        ours.load_state_dict(both)
    assert torch.equal(picture(loaded, "sd15"), picture(first, "sd15"))


def in_diffusers(state, prefix):
    """A Flux file as diffusers converts it, whose code knows one width alone, 3072."""
    split = torch.split

    def narrow(tensor, sizes, dim):
        return split(tensor, [size * WIDTH // 3072 for size in sizes], dim)

    with mock.patch.object(torch, "split", narrow):
        return convert_flux_transformer_checkpoint_to_diffusers({n.removeprefix(prefix): t for n, t in state.items()})


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_a_merged_flux_file_is_a_flux_for_diffusers(tmp_path, prefix):
    states = [flux_state(seed, prefix) for seed in (0, 1)]
    files = [write_file(tmp_path / f"{seed}.safetensors", state) for seed, state in enumerate(states)]
    smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    made = in_diffusers(load_file(tmp_path / "merged.safetensors"), prefix)
    halves = [in_diffusers(state, prefix) for state in states]
    transformer: FluxTransformer2DModel = make_pipeline("flux", 0).transformer
    assert made.keys() == transformer.state_dict().keys()
    assert all(torch.equal(made[name], (halves[0][name] + halves[1][name]) / 2) for name in made)


@pytest.mark.parametrize("kind", ["sd15", "sdxl"])
def test_names_of_a_unet_are_those_that_diffusers_reads_from_single_files(kind):
    unet = make_pipeline(kind, 0).unet
    state = unet.state_dict()
    names = file_names(state)
    assert names.keys() == state.keys()
    stored = {f"model.diffusion_model.{name}": state[own] for own, name in names.items()}
    back = convert_ldm_unet_checkpoint(stored, dict(unet.config))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


def test_a_folder_is_written_where_the_name_is_no_file(tmp_path):
    files = [write_file(tmp_path / f"{seed}.safetensors", flux_state(seed)) for seed in (0, 1)]
    smelt.merge(files, out=tmp_path / "out", method="average")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"README.md", "manifest.json", "model.safetensors"}


def test_ema_weights_are_left_out_and_a_note_says_so(tmp_path):
    states = [sd3_state(seed) for seed in (0, 1)]
    states[0]["model_ema.diffusion_modeljoint_blocks0"] = torch.ones(3)
    files = [write_file(tmp_path / f"{seed}.safetensors", state) for seed, state in enumerate(states)]
    summary = smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    assert load_file(tmp_path / "merged.safetensors").keys() == states[1].keys()
    assert any("1 tensors of EMA weights (model_ema.*) are left out" in note for note in summary.notes)


def test_positions_that_only_one_file_has_do_not_stand_in_the_way(tmp_path):
    states = [sd15_state(seed)[0] for seed in (0, 1)]
    del states[1]["cond_stage_model.transformer.text_model.embeddings.position_ids"]
    files = [write_file(tmp_path / f"{seed}.safetensors", state) for seed, state in enumerate(states)]
    smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    smelt.merge(files[::-1], out=tmp_path / "other.safetensors", method="average")
    assert len(load_file(tmp_path / "merged.safetensors")) == len(load_file(tmp_path / "other.safetensors")) + 1


def test_the_words_of_the_file_are_those_of_a_merge(tmp_path):
    words = {"architecture": "flux-1-dev", "sai_model_spec": "1.0.0", "hash_sha256": "0xabc", "author": "me"}
    files = [
        write_file(tmp_path / f"{seed}.safetensors", flux_state(seed), title=f"Number {seed}", resolution=size, **words)
        for seed, size in enumerate(("512x512", "1024x1024"))
    ]
    smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    with safe_open(tmp_path / "merged.safetensors", "pt") as file:
        said = {key: word for key, word in file.metadata().items() if key.startswith("modelspec.")}
        assert "average" in file.metadata()["recipe"]
    assert said == {
        "modelspec.architecture": "flux-1-dev",
        "modelspec.sai_model_spec": "1.0.0",
        "modelspec.title": "merge of Number 0, Number 1",
        "modelspec.merged_from": "Number 0, Number 1",
    }


def test_a_checkpoint_in_pickle_follows_the_pickle_rule(tmp_path):
    states = [sd15_state(seed)[0] for seed in (0, 1)]
    for seed, state in enumerate(states):
        torch.save({"state_dict": state, "global_step": 3}, tmp_path / f"{seed}.ckpt")
    files = [tmp_path / "0.ckpt", tmp_path / "1.ckpt"]
    with pytest.raises(smelt.errors.SmeltError, match="pickles"):
        smelt.merge(files, out=tmp_path / "merged.safetensors", method="average")
    smelt.merge(files, out=tmp_path / "merged.safetensors", method="average", allow_pickle=True)
    assert load_file(tmp_path / "merged.safetensors").keys() == states[0].keys()
    assert smelt.inspect(files[0]).format == "pickle, SD1.5 single file"


def test_a_file_that_is_there_is_kept(tmp_path):
    files = [write_file(tmp_path / f"{seed}.safetensors", flux_state(seed)) for seed in (0, 1)]
    strange = tmp_path / "strange.safetensors"
    save_file({"a": torch.ones(1)}, strange)
    before = strange.read_bytes()
    for force in (False, True):
        with pytest.raises(OutputError, match="no file that Smelt wrote"):
            smelt.merge(files, out=strange, method="average", force=force)
    assert strange.read_bytes() == before
    out = tmp_path / "merged.safetensors"
    smelt.merge(files, out=out, method="average")
    first = out.read_bytes()
    with pytest.raises(OutputError, match="it is kept"):
        smelt.merge(files, out=out, method="average", weights=[1, 3])
    assert out.read_bytes() == first
    smelt.merge(files, out=out, method="average", weights=[1, 3], force=True)
    assert out.read_bytes() != first
    with pytest.raises(OutputError, match="holds an input"):
        smelt.merge([out, files[0]], out=out, method="average", force=True)


def test_a_stopped_merge_leaves_no_file_and_continues(tmp_path, monkeypatch):
    from smelt.engine.sink.sink import FolderSink

    files = [write_file(tmp_path / f"{seed}.safetensors", flux_state(seed)) for seed in (0, 1)]
    smelt.merge(files, out=tmp_path / "whole.safetensors", method="average")
    done, out = FolderSink.done_all, tmp_path / "merged.safetensors"

    def stop(self, items):
        done(self, items)
        raise KeyboardInterrupt

    monkeypatch.setattr(FolderSink, "done_all", stop)
    with pytest.raises(OutputError, match="interrupted"):
        smelt.merge(files, out=out, method="average")
    monkeypatch.undo()
    assert not out.exists()
    assert smelt.merge(files, out=out, method="average", resume=True).resumed > 0
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    again = smelt.merge(files, out=out, method="average", resume=True)
    assert any("finished already" in note for note in again.notes)


def test_a_language_model_in_one_file_leaves_a_note_on_what_is_not_in_it(tmp_path):
    models = [
        checkpoints.write_model(tmp_path / name, checkpoints.state(value))
        for name, value in (("one", 1.0), ("two", 2.0))
    ]
    summary = smelt.merge(models, out=tmp_path / "merged.safetensors", method="average")
    assert "merged.safetensors holds the weights alone; a folder would hold beside them: config.json" in summary.notes
    assert not any(
        "weights alone" in note for note in smelt.merge(models, out=tmp_path / "out", method="average").notes
    )


def test_what_is_no_file_is_refused_as_one(tmp_path):
    folders = [write_pipeline("sd15", seed, tmp_path / f"{seed}") for seed in (0, 1)]
    with pytest.raises(RecipeError, match="several components"):
        smelt.merge(folders, out=tmp_path / "merged.safetensors", method="average")
    assert not list(tmp_path.glob("*merged*"))


def test_an_sd15_folder_and_a_file_merge_in_the_layout_of_the_first(tmp_path):
    folders = [write_pipeline("sd15", seed, tmp_path / f"folder{seed}") for seed in (0, 1)]
    files = [write_file(tmp_path / f"file{seed}.safetensors", sd15_state(seed)[0]) for seed in (0, 1)]
    for ours, theirs in ((folders, files), (files, folders)):
        wanted = smelt.merge(ours, method="average")
        made = smelt.merge([ours[0], theirs[1]], method="average")
        assert made.keys() == wanted.keys()
        assert all(torch.equal(made[name], tensor) for name, tensor in wanted.items())
    plan = smelt.plan([folders[0], files[1]], method="average")
    assert any("SD1.5 single file: read under the names of" in note for note in plan.notes)


@pytest.mark.parametrize("prefixes", [("", "model.diffusion_model."), ("model.diffusion_model.", "")])
def test_a_prefix_before_the_names_does_not_stand_in_the_way(tmp_path, prefixes):
    states = [flux_state(seed, prefix) for seed, prefix in enumerate(prefixes)]
    files = [write_file(tmp_path / f"{seed}.safetensors", state) for seed, state in enumerate(states)]
    made = smelt.merge(files, method="average")
    plain = [{n.removeprefix("model.diffusion_model."): t for n, t in state.items()} for state in states]
    assert made.keys() == states[0].keys()
    for name, tensor in made.items():
        own = name.removeprefix("model.diffusion_model.")
        assert torch.equal(tensor, (plain[0][own] + plain[1][own]) / 2)


def test_layouts_that_do_not_correspond_are_refused(tmp_path):
    folder = write_pipeline("sdxl", 0, tmp_path / "folder")
    file = write_file(tmp_path / "file.safetensors", sdxl_state(1))
    with pytest.raises(IncompatibleModels, match=r"layout diffusers folder \(folder\) and SDXL single file \(file\)"):
        smelt.merge([folder, file], out=tmp_path / "out", method="average")
    other = write_file(tmp_path / "other.safetensors", sd15_state(1)[0])
    with pytest.raises(IncompatibleModels, match=r"layout SDXL single file \(file\) and SD1.5 single file \(other\)"):
        smelt.merge([file, other], out=tmp_path / "out", method="average")
