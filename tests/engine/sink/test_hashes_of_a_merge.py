"""Every digest that a merge writes down is that of the file, however the merge was run; and the bytes are read once.

Digests are made of what is merged, while it is in a cache, in pieces and by several threads; so each way of running a
merge could get them wrong in its own way. Here all ways are compared with the library's digests of the finished files.
"""

import json
import os
import struct

import pytest
import torch
from blake3 import blake3
from safetensors import safe_open
from safetensors.torch import save_file

import smelt
from checkpoints import random_state, snapshot, write_model
from smelt.engine.run import executor
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.machine import library
from smelt.engine.sink import sink as sinks
from smelt.errors import OutputError
from smelt.files.hashing import blake3 as hashing
from smelt.files.hashing import input_hashes
from smelt.files.hashing.blake3 import compiled_blake3
from writes import full_after, on_every_write

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = {f"layers.{n}.{part}.weight": (61, 67) for n in range(3) for part in ("up", "down")}
SHAPES |= {f"layers.{n}.norm.weight": (61,) for n in range(3)} | {"embed.weight": (97, 61), "scale": ()}

DARE_TIES = [{"dare": {"density": 0.5}}, {"ties": {"density": 0.4}}]
TWICE = [{"models": {"cars": [0, 2]}}, {"models": {"birds": [1, 3]}}, {"models": {"cars": [1, 2]}}]
MERGES = {
    "average": {"method": "average"},
    "ties": {"method": {"ties": {"density": 0.3}}},
    "dare and ties": {"method": DARE_TIES},
    "slerp": {"method": {"slerp": {"t": 0.3}}, "base": None},
    "model stock": {"method": "model_stock"},
    "model stock by rows": {"method": {"model_stock": {"over": "row"}}},
    "tsv, in torch": {"method": "tsv"},
    "another type": {"method": "average", "dtype": "bfloat16"},
    "tensors skipped": {"method": "average", "skip": "layers.1.*"},
    "layers used twice": {"method": "passthrough", "slices": TWICE, "base": None},
}


def with_odd_ones(seed):
    """Tensors of odd sizes in three types, whole numbers, and an empty one."""
    drawn = random_state(seed, SHAPES)
    tensors = {name: one.to(DTYPES[order % 3]) for order, (name, one) in enumerate(drawn.items())}
    return tensors | {"steps": torch.arange(5), "none": torch.zeros(0, 3)}


@pytest.fixture
def models(tmp_path):
    """A base and two fine-tunes; cars lies in two files."""
    config = {"model_type": "pico", "num_hidden_layers": 3}
    found = {}
    for seed, name in enumerate(("base", "cars", "birds")):
        found[name] = write_model(tmp_path / name, with_odd_ones(seed), config)
    in_two_files(found["cars"])
    return found


def in_two_files(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    names = [f"model-{n}-of-2.safetensors" for n in (1, 2)]
    home = {name: names[order % 2] for order, name in enumerate(tensors)}
    for file in names:
        save_file({name: one for name, one in tensors.items() if home[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": home}))


@pytest.fixture
def merged(models, tmp_path_factory, monkeypatch):
    """`merged(...)` merges as if for the first time: no digest is known. The folder."""

    def merge(*, known=False, out=None, **words):
        words = {"method": "average", "base": models["base"], "shard_size": "20KB", **words}
        if not known:
            monkeypatch.setenv("SMELT_CACHE", str(tmp_path_factory.mktemp("cache")))
        place = (out or tmp_path_factory.mktemp("run")) / "out"
        smelt.merge({name: models[name] for name in ("cars", "birds")}, out=place, **words)
        return place

    return merge


def digest(path):
    return blake3(path.read_bytes()).hexdigest()


def check(out):
    """All digests in a folder are those of the files."""
    manifest = json.loads((out / "manifest.json").read_text())
    there = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    del there["manifest.json"]
    assert manifest["files"] == {
        name: {"blake3": digest(path), "bytes": path.stat().st_size} for name, path in there.items()
    }
    parents = {}
    for name, parent in manifest["parents"].items():
        inputs = [path for ref in parent["ref"].split("+") for path in sorted(files_of(ref))]
        parents[name] = {path.name: {"blake3": digest(path)} for path in inputs if path.name in parent["files"]}
        assert len(parents[name]) == len(parent["files"]) > 0
        assert parent["files"] == parents[name]
    for path in out.glob("model*.safetensors"):
        with safe_open(path, "pt") as file:
            said = file.metadata()
            assert len(file.keys()) > 0
        assert json.loads(said["parents"]) == parents
    assert smelt.verify(out).ok
    return snapshot(out)


def files_of(ref):
    from pathlib import Path

    place = Path(ref)
    return place.iterdir() if place.is_dir() else [place]


@pytest.mark.parametrize("words", MERGES.values(), ids=MERGES)
def test_every_digest_is_that_of_the_file_and_every_way_gives_the_same_bytes(merged, models, monkeypatch, words):
    good = check(merged(**words))
    assert len([name for name in good if name.endswith(".safetensors")]) > 2
    for threads in (1, 2, 4):
        assert check(merged(**words, threads=threads)) == good, threads
    with monkeypatch.context() as patch:
        patch.setattr(backend, "library", lambda: None)
        assert check(merged(**words)) == good, "in torch"
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "compiled_blake3", lambda: None)
        assert check(merged(**words)) == good, "hashed by the library"
    with monkeypatch.context() as patch:
        patch.setattr(executor, "_MANY", 1)
        patch.setattr(executor, "_TENSORS", 4)
        assert check(merged(**words)) == good, "small ones together"
    with monkeypatch.context() as patch:
        patch.setattr(backend, "_SPAN", 1 << 10)
        patch.setattr(backend, "_READ", 1 << 8)
        assert check(merged(**words, threads=2)) == good, "in short spans"


@pytest.mark.parametrize("words", MERGES.values(), ids=MERGES)
def test_one_file_is_hashed_as_well_as_many(merged, words):
    found = check(merged(**words, shard_size="1GB"))
    assert [name for name in found if name.endswith(".safetensors")] == ["model.safetensors"]


@pytest.mark.parametrize("words", MERGES.values(), ids=MERGES)
@pytest.mark.parametrize("writes", [1, 4, 9])
def test_a_merge_that_was_stopped_has_the_same_digests_when_it_is_resumed(
    merged, monkeypatch, tmp_path_factory, words, writes
):
    """What the first run wrote is hashed by the second, which did not see it."""
    good, place = check(merged(**words)), tmp_path_factory.mktemp("stopped")
    with monkeypatch.context() as patch:
        on_every_write(patch, full_after(writes))
        with pytest.raises(OutputError, match="disk is full"):
            merged(**words, out=place, threads=1)
    assert check(merged(**words, out=place, resume=True)) == good


def test_known_digests_are_written_down_as_new_ones_are(merged, monkeypatch):
    good = check(merged())
    known = []
    monkeypatch.setattr(input_hashes, "TreeHash", known.append)
    assert check(merged(known=True)) == good
    assert known == [], "nothing is hashed that is known"


@pytest.fixture
def read_again(monkeypatch):
    """What had to be read when digests were asked for, since nobody had hashed it: bytes of each file, by its name."""
    found, finish = {}, hashing.TreeHash.finish

    def noting(self, path):
        if self.address is not None:
            found[f"{path.parent.name}/{path.name}"] = list(self.gaps())
        return finish(self, path)

    monkeypatch.setattr(hashing.TreeHash, "finish", noting)
    return found


def header_end(path):
    with open(path, "rb") as file:
        return 8 + struct.unpack("<Q", file.read(8))[0]


@pytest.mark.skipif(compiled_blake3() is None or library() is None, reason="what hashes in the pass was not compiled")
@pytest.mark.parametrize("fused", [True, False], ids=["machine", "torch"])
@pytest.mark.parametrize("words", MERGES.values(), ids=MERGES)
def test_the_bytes_of_a_merge_are_read_once(merged, models, monkeypatch, read_again, words, fused):
    """Only the headers of inputs, and tensors that are not merged, are read for their digests; of outputs nothing."""
    if not fused:
        monkeypatch.setattr(backend, "library", lambda: None)
    out = merged(**words)
    written = {
        name: gaps for name, gaps in read_again.items() if name.startswith("output/") and name.endswith("safetensors")
    }
    assert len(written) == len(list(out.glob("*.safetensors")))
    assert set(map(str, written.values())) == {"[]"}
    needed = ["cars", "birds"] + (["base"] if words["method"] != "average" and "base" not in words else [])
    for path in (path for name in needed for path in models[name].glob("*.safetensors")):
        gaps = read_again[f"{path.parent.name}/{path.name}"]
        if "skip" in words or "slices" in words:
            assert gaps[0][0] == 0
            continue
        ((start, end),) = gaps
        assert start == 0
        assert end - header_end(path) in (0, 40), "whole numbers, 40 bytes, are taken from one of the models"


@pytest.mark.skipif(compiled_blake3() is None, reason="BLAKE3 was not compiled")
def test_a_tensor_that_is_skipped_is_read_for_the_digest_alone(tmp_path, monkeypatch, read_again):
    """Two tensors of 1,000 float32: of the one that is left out, and of the header, nothing was merged."""
    state = {"a": torch.ones(1000), "b": torch.ones(1000)}
    models = {name: write_model(tmp_path / name, state) for name in ("base", "cars", "birds")}
    smelt.merge([models["cars"], models["birds"]], skip="b", base=models["base"], out=tmp_path / "out")
    head = header_end(models["birds"] / "model.safetensors")
    assert read_again["birds/model.safetensors"] == [(0, head), (head + 4000, head + 8000)]
    check(tmp_path / "out")


@pytest.mark.skipif(compiled_blake3() is None, reason="BLAKE3 was not compiled")
def test_a_run_that_may_resume_reads_its_inputs_once_where_nothing_is_finished(merged, models, read_again):
    check(merged(method="task_arithmetic", resume=True))
    (gap,) = read_again["birds/model.safetensors"]
    assert gap[1] - header_end(models["birds"] / "model.safetensors") in (0, 40)


def test_seventy_models_are_all_hashed(tmp_path):
    """The machine hashes 64 of the files that it reads; those of the rest are read at the end."""
    models = {f"m{n}": write_model(tmp_path / f"m{n}", random_state(n, {"w": (50, 41)})) for n in range(70)}
    smelt.merge(models, out=tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / "manifest.json").read_text())["parents"]) == 70
    check(tmp_path / "out")


def test_one_file_under_two_names_is_hashed_for_both(tmp_path, models):
    """As in two folders of the hub's store."""
    linked = tmp_path / "linked"
    linked.mkdir()
    os.link(models["birds"] / "model.safetensors", linked / "model.safetensors")
    (linked / "config.json").write_bytes((models["birds"] / "config.json").read_bytes())
    smelt.merge([models["birds"], linked], out=tmp_path / "out")
    check(tmp_path / "out")


@pytest.mark.parametrize("transposed", [False, True], ids=["[out, in]", "[in, out]"])
@pytest.mark.parametrize(
    "method", ["average", {"nuslerp": {"over": "row"}}, {"model_stock": {"over": "row"}}, "tsv"], ids=str
)
def test_experts_that_lie_in_a_stack_are_hashed(tmp_path, read_again, method, transposed):
    """Each is merged by itself, into its place in the stack; 3 experts of 72 inputs and 50 outputs, in bfloat16."""
    models = []
    for seed, name in enumerate(("base", "cars", "birds")):
        shapes = {"l.0.mlp.experts.up_proj": (3, 72, 50) if transposed else (3, 50, 72)}
        state = {key: one.bfloat16() for key, one in random_state(seed, shapes).items()}
        models.append(write_model(tmp_path / name, state | {"l.0.mlp.router.weight": torch.ones(3, 72)}))
    base, *others = models
    smelt.merge(others, base=base, method=method, out=tmp_path / "out", threads=2)
    head = header_end(models[1] / "model.safetensors")
    if compiled_blake3() is not None:
        assert read_again["output/model.safetensors"] == []
        assert read_again["cars/model.safetensors"] == [(0, head)]
    check(tmp_path / "out")


def test_adapters_over_one_base_are_hashed_with_it(tmp_path, models):
    refs = {}
    for seed, name in enumerate(("red", "blue")):
        place = tmp_path / name
        place.mkdir()
        factors = random_state(seed, {"lora_A": (2, 67), "lora_B": (61, 2)})
        save_file(
            {f"base_model.model.layers.0.up.{part}.weight": one for part, one in factors.items()},
            place / "adapter_model.safetensors",
        )
        words = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["up"]}
        (place / "adapter_config.json").write_text(json.dumps(words))
        refs[name] = f"{models['base']}+{place}"
    smelt.merge(refs, base=models["base"], method="task_arithmetic", out=tmp_path / "out", threads=2)
    check(tmp_path / "out")
    said = json.loads((tmp_path / "out" / "manifest.json").read_text())["parents"]["red"]["files"]
    assert set(said) >= {"model.safetensors", "adapter_model.safetensors"}


def test_pickles_are_hashed(tmp_path):
    for seed, name in enumerate(("cars", "birds")):
        (tmp_path / name).mkdir()
        torch.save(random_state(seed, {"w": (50, 41), "v": (7,)}), tmp_path / name / "pytorch_model.bin")
        (tmp_path / name / "config.json").write_text('{"model_type": "pico"}')
    smelt.merge({n: tmp_path / n for n in ("cars", "birds")}, out=tmp_path / "out", allow_pickle=True)
    check(tmp_path / "out")


def test_files_of_llama_cpp_are_hashed(tmp_path):
    gguf = pytest.importorskip("gguf")
    for seed, name in enumerate(("cars", "birds")):
        writer = gguf.GGUFWriter(tmp_path / f"{name}.gguf", "llama")
        writer.add_uint32("llama.block_count", 1)
        drawn = random_state(seed, {"token_embd.weight": (40, 64), "blk.0.ffn_down.weight": (64, 96)})
        for key, one in drawn.items():
            quantised = gguf.quantize(one.numpy(), gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(key, quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    smelt.merge([tmp_path / "cars.gguf", tmp_path / "birds.gguf"], out=tmp_path / "out")
    check(tmp_path / "out")


def test_models_whose_rows_are_moved_are_hashed(tmp_path):
    for name, tokens in (("base", "abcd"), ("cars", "abcd"), ("birds", "dcba")):
        state = random_state(len(name), {"model.embed_tokens.weight": (4, 300), "a.weight": (2,)})
        vocabulary = json.dumps({token: number for number, token in enumerate(tokens)})
        write_model(tmp_path / name, state, {"model_type": "pico", "vocab_size": 4}, vocab__json=vocabulary)
    given = [tmp_path / "cars", tmp_path / "birds"]
    smelt.merge(given, base=tmp_path / "base", vocab="base", out=tmp_path / "out")
    check(tmp_path / "out")


def test_an_adapter_that_is_made_of_a_merge_has_its_digests(tmp_path):
    shapes = {f"layers.{n}.up.weight": (61, 67) for n in range(2)}
    base, *models = (write_model(tmp_path / f"m{n}", random_state(n, shapes)) for n in range(3))
    smelt.merge(models, base=base, method="task_arithmetic", lora=2, out=tmp_path / "out")
    assert "adapter_model.safetensors" in check(tmp_path / "out")


def test_the_sha256_of_the_hubs_cache_stands_beside(tmp_path, models):
    import hashlib

    weights = models["birds"] / "model.safetensors"
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
    (tmp_path / "blobs").mkdir()
    weights.rename(tmp_path / "blobs" / sha256)
    weights.symlink_to(tmp_path / "blobs" / sha256)
    smelt.merge([models["cars"], models["birds"]], out=tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["parents"]["birds"]["files"] == {"model.safetensors": {"blake3": digest(weights), "sha256": sha256}}
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        parents = json.loads(file.metadata()["parents"])
    assert parents == {name: parent["files"] for name, parent in manifest["parents"].items()}
    assert smelt.verify(tmp_path / "out").ok


def sparse_model(folder, size):
    """A model of so many bytes of zeros that take no room on the disk."""
    from smelt.formats.safetensors import encode_header
    from smelt.formats.source import TensorInfo

    count = size // 4 // 64
    head, _ = encode_header({f"t{n:02d}": TensorInfo("F32", (count,)) for n in range(64)}, {"format": "pt"})
    folder.mkdir()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(head)
        file.truncate(len(head) + 4 * count * 64)
    return folder


def test_a_run_that_stops_early_leaves_a_small_folder(tmp_path, monkeypatch):
    """1.5 GB are to be written. Room for no more than twice 256 MiB, and some, is set aside when the first comes."""
    models = [sparse_model(tmp_path / name, 1_500_000_000) for name in ("cars", "birds")]
    with monkeypatch.context() as patch:
        on_every_write(patch, full_after(0))
        with pytest.raises(OutputError, match="disk is full"):
            smelt.merge(models, out=tmp_path / "out", threads=1)
    about = (tmp_path / ".out.smelt-partial" / "output" / "model.safetensors").stat()
    assert about.st_size > 1_499_000_000
    assert about.st_blocks * 512 <= 2 * sinks._AHEAD + (1 << 20) < 0.4 * about.st_size
