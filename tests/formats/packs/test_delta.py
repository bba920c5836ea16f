"""A pack as a Source: any run of elements from any thread, its base checked, damage named."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import load_file, save_file

from checkpoints import CONFIG, random_state, write_model
from smelt.engine.convert.pack import pack
from smelt.errors import CorruptFile, IncompatibleModels, RecipeError
from smelt.files import identity
from smelt.formats.open import is_delta, open_path
from smelt.formats.packs.source import DeltaSource
from smelt.models.references import open_ref
from smelt.testing.pico import load

SHAPES = {"tall.weight": (700, 300), "wide.weight": (3, 9001), "conv.weight": (16, 3, 5, 5), "bias": (300,)}


@pytest.fixture(params=[{"bits": 2}, {"bits": 4}, {"bits": 8}, {"rank": 2}], ids=str)
def packed(request, tmp_path):
    return make(tmp_path, **request.param)


@pytest.fixture
def one(tmp_path):
    return make(tmp_path, bits=4)


def make(tmp_path, dtype=torch.float32, **how):
    base = {name: tensor.to(dtype) for name, tensor in random_state(0, SHAPES).items()}
    change = random_state(1, SHAPES)
    model = {name: (tensor.float() + 0.01 * change[name]).to(dtype) for name, tensor in base.items()}
    write_model(tmp_path / "base", base)
    pack(write_model(tmp_path / "model", model), base=tmp_path / "base", out=tmp_path / "pack", **how)
    return tmp_path / "pack"


def test_any_run_of_elements_is_that_of_the_whole(packed):
    source, whole = open_path(packed), load(packed)
    draw = torch.Generator().manual_seed(0)
    for key, info in source.tensors.items():
        for _ in range(12):
            start = int(torch.randint(info.count, (1,), generator=draw))
            count = int(torch.randint(1, info.count - start + 1, (1,), generator=draw))
            out = torch.empty(count)
            source.read(key, start, out)
            assert torch.equal(out, whole[key].view(-1)[start : start + count])
        source.read(key, info.count, torch.empty(0))


def test_tiles_do_not_depend_on_where_a_read_begins(packed):
    """65,536 // 300 columns are 218 rows: element 70,000 of row 233 lies in the tile that begins with row 218."""
    tiles = open_path(packed)._changes("tall.weight", 70_000, 10)
    assert [(begin, tile.numel()) for begin, tile in tiles] == [(218 * 300, 218 * 300)]


def test_many_threads_read_the_same(packed):
    source, whole = open_path(packed), load(packed)

    def piece(place):
        key, start = place
        out = torch.empty(min(7001, source.tensors[key].count - start))
        source.read(key, start, out)
        return torch.equal(out, whole[key].view(-1)[start : start + out.numel()])

    places = [(key, start) for key, info in source.tensors.items() for start in range(0, info.count, 7001)]
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(piece, places * 3))


def test_the_sum_is_rounded_once_to_the_models_dtype_whatever_it_is_read_as(tmp_path):
    folder = make(tmp_path, dtype=torch.bfloat16, bits=4)
    source, base = open_path(folder), load(tmp_path / "base")["tall.weight"]
    stored = load_file(folder / "delta.safetensors")
    low, high = stored["tall.weight.codes"] & 15, stored["tall.weight.codes"] >> 4
    codes = torch.stack([low, high], -1).view(700, 300).float() - 7
    by_hand = (base.float() + codes * stored["tall.weight.scale"][:, None]).to(torch.bfloat16)
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        out = torch.empty(700 * 300, dtype=dtype)
        source.read("tall.weight", 0, out)
        assert torch.equal(out.view(700, 300), by_hand.to(dtype))


def test_a_pack_is_known_by_its_note_and_its_weights_file_leads_to_it(one, tmp_path):
    assert is_delta(one)
    assert not is_delta(tmp_path / "base")
    assert isinstance(open_path(one), DeltaSource)
    assert open_path(one / "delta.safetensors").tensors.keys() == SHAPES.keys()


def test_files_are_the_bases_and_the_packs(one, tmp_path):
    files = open_path(one).files
    assert [f"{path.parent.name}/{path.name}" for path in files] == [
        "base/model.safetensors",
        "pack/delta.safetensors",
        "pack/delta.json",
    ]


def test_the_folder_is_the_packs_or_the_bases_where_the_pack_has_no_config(one, tmp_path):
    assert open_path(one).folder == one
    (one / "config.json").unlink()
    assert open_path(one).folder == tmp_path / "base"
    assert json.loads((tmp_path / "base" / "config.json").read_text()) == CONFIG


def test_another_base_is_refused(one, tmp_path):
    write_model(tmp_path / "base", random_state(9, SHAPES))
    with pytest.raises(IncompatibleModels, match=r"change of another base.*model\.safetensors"):
        open_path(one)


def test_the_base_is_hashed_once_and_not_at_every_opening(one, monkeypatch):
    open_path(one)
    monkeypatch.setattr(identity, "hash_file", lambda *_: pytest.fail("read again"))
    open_path(one)


def test_a_base_that_is_gone_is_named_as_the_pack_names_it(one, tmp_path):
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(RecipeError, match=r"pack: a delta pack over '\.\./base', which cannot be opened: .*no model"):
        open_ref(str(one))


def test_a_pack_over_itself_is_refused(one):
    change_note(one, lambda note: note["base"].update(ref="."))
    with pytest.raises(RecipeError, match="leads back to itself"):
        open_path(one)


def test_two_packs_over_each_other_are_refused(one, tmp_path):
    shutil.copytree(one, tmp_path / "other")
    change_note(one, lambda note: note["base"].update(ref="../other"))
    change_note(tmp_path / "other", lambda note: note["base"].update(ref="../pack"))
    with pytest.raises(RecipeError, match="leads back to itself"):
        open_path(one)


def change_note(folder, change):
    note = json.loads((folder / "delta.json").read_text())
    change(note)
    (folder / "delta.json").write_text(json.dumps(note))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda note: note.update(version=3), "version 3 of the format; this Smelt reads version 1 and 2"),
        (lambda note: note.update(format="other"), "format"),
        (lambda note: note.update(bits=3), "bits"),
        (lambda note: note.pop("bits"), "either bits or rank"),
        (lambda note: note.update(rank=2), "either bits or rank"),
        (lambda note: note.update(surprise=1), "surprise"),
        (lambda note: note.pop("base"), "base"),
        (lambda note: note["tensors"]["bias"].update(dtype="F7"), "no dtype 'F7'"),
        (lambda note: note["tensors"]["bias"].update(stored="guess"), r"tensors\.bias\.stored"),
        (lambda note: note["tensors"]["bias"].update(stored="low_rank"), "does not go with bits"),
        (lambda note: note["tensors"].update(ghost={"stored": "base", "dtype": "F32"}), "'ghost'.*lacks"),
        (lambda note: note["tensors"].pop("bias"), r"'bias\.exact' is not in delta\.json"),
    ],
)
def test_a_damaged_note_is_refused_in_words(one, change, said):
    change_note(one, change)
    with pytest.raises(CorruptFile, match=said):
        open_path(one)


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_note_that_is_none_is_refused(one, content):
    (one / "delta.json").write_text(content)
    with pytest.raises(CorruptFile, match=r"delta\.json"):
        open_path(one)


def test_weights_that_do_not_go_with_the_note_are_refused(one):
    path = one / "delta.safetensors"
    stored = load_file(path)
    save_file({**stored, "bias.exact": torch.ones(3)}, path)
    with pytest.raises(CorruptFile, match=r"'bias\.exact' is F32 \(3,\) instead of F32 \(300,\)"):
        open_path(one)
    stored.pop("bias.exact")
    save_file(stored, path)
    with pytest.raises(CorruptFile, match=r"'bias\.exact' is missing"):
        open_path(one)
    path.unlink()
    with pytest.raises(CorruptFile, match=r"delta\.safetensors: not a file"):
        open_path(one)


def test_whole_weights_beside_a_pack_are_refused(one, tmp_path):
    shutil.copy(tmp_path / "base" / "model.safetensors", one)
    with pytest.raises(CorruptFile, match="unclear which weights"):
        open_path(one)
