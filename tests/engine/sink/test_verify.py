"""The manifest knows every file: any changed byte, missing file or planted file is found and named."""

import hashlib
import json
import os

import pytest
from blake3 import blake3

import smelt
from checkpoints import snapshot
from smelt.errors import RecipeError
from smelt.files.hashing.blake3 import TreeHash, blake3_of


@pytest.fixture
def out(tmp_path, two):
    base, cars, birds = two
    (base / "additional_chat_templates").mkdir()
    (base / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")
    (base / "tokenizer_config.json").write_text("{}")
    smelt.merge({"cars": cars, "birds": birds}, base=base, method="ties", out=tmp_path / "out", shard_size="100B")
    return tmp_path / "out"


def test_a_fresh_output_is_as_its_manifest_says(out):
    found = smelt.verify(out)
    assert found.ok
    assert found.checked == len(snapshot(out)) - 1


def test_one_changed_byte_in_any_file_is_found_and_the_file_named(out):
    for name, content in snapshot(out).items():
        for place in (0, len(content) // 2, len(content) - 1):
            changed = bytearray(content)
            changed[place] ^= 1
            (out / name).write_bytes(changed)
            found = smelt.verify(out)
            assert not found.ok, (name, place)
            assert any(fault.startswith(name) for fault in found.faults), (name, place, found.faults)
        (out / name).write_bytes(content)
    assert smelt.verify(out).ok


def test_any_changed_byte_of_the_manifest_is_found(out):
    path = out / "manifest.json"
    content = path.read_bytes()
    missed, crashed = [], []
    for place in range(len(content)):
        for flip in (1, 0x20):
            changed = bytearray(content)
            changed[place] ^= flip
            path.write_bytes(changed)
            try:
                found = smelt.verify(out)
            except Exception as error:
                crashed.append((place, flip, error))
                continue
            if not any(fault.startswith("manifest.json") for fault in found.faults):
                missed.append((place, flip))
    path.write_bytes(content)
    assert (missed, crashed) == ([], [])


def test_other_white_space_in_the_manifest_is_a_changed_byte_too(out):
    path = out / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"\n", b" ", 1))
    assert not smelt.verify(out).ok


def test_a_missing_file_and_another_length_are_named(out):
    (out / "config.json").unlink()
    (out / "README.md").write_bytes((out / "README.md").read_bytes() + b"!")
    faults = smelt.verify(out).faults
    assert any("config.json: is missing" in fault for fault in faults)
    assert any(fault.startswith("README.md: has") for fault in faults)
    assert len(faults) == 2


@pytest.mark.parametrize("name", ["old.safetensors", "pytorch_model.bin"])
def test_weights_that_the_manifest_does_not_know_are_named(out, name):
    (out / name).write_bytes(b"x")
    assert any(fault.startswith(name) for fault in smelt.verify(out).faults)


def test_a_stray_index_would_send_loaders_to_other_weights_and_is_named(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "single")
    (tmp_path / "single" / "model.safetensors.index.json").write_text("{}")
    assert any("index" in fault for fault in smelt.verify(tmp_path / "single").faults)


def test_what_was_not_made_by_smelt_is_refused(tmp_path, two):
    with pytest.raises(RecipeError, match=r"has no manifest\.json"):
        smelt.verify(two[0])
    with pytest.raises(RecipeError, match="no such folder"):
        smelt.verify(tmp_path / "ghost")


ODD = {
    "nothing": b"",
    "list": b"[]",
    "empty": b"{}",
    "null": b"null",
    "files are a number": b'{"files": 3}',
    "files are null": b'{"files": null}',
    "files are a list": b'{"files": [["a", 1]]}',
    "entry is a number": b'{"files": {"a": 3}}',
    "entry is empty": b'{"files": {"a": {}}}',
    "entry is null": b'{"files": {"a": {"sha256": null, "bytes": null}}}',
    "size is true": b'{"files": {"a": {"sha256": "0", "bytes": true}}}',
    "size is huge": b'{"files": {"a": {"sha256": "0", "bytes": 1' + 4000 * b"0" + b"}}}",
    "size is beyond all": b'{"files": {"a": {"sha256": "0", "bytes": 1' + 9000 * b"0" + b"}}}",
    "deep": b'{"files": ' + 100_000 * b"[" + 100_000 * b"]" + b"}",
    "deep beside": b'{"files": {}, "recipe": ' + 100_000 * b'{"a":' + b"0" + 100_001 * b"}",
    "lone surrogate": b'{"files": {"\\ud800": {"sha256": "0", "bytes": 1}}}',
    "not UTF-8": b'{"files": {"\xff\xfe": 1}}',
    "twice": b'{"files": {}, "files": {}}',
    "NaN": b'{"files": {}, "x": NaN}',
    "zero byte": b"\0",
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_an_odd_manifest_is_one_line_not_a_crash(out, content):
    (out / "manifest.json").write_bytes(content)
    found = smelt.verify(out)
    about = [fault for fault in found.faults if fault.startswith("manifest.json: ")]
    assert len(about) == 1
    assert all(len(fault) < 300 and fault.isprintable() for fault in found.faults)


LOADED = [
    "pytorch_model.bin", "old.safetensors", "pytorch_model.bin.index.json", "model.gguf", "tf_model.h5",
    "flax_model.msgpack", "model.onnx", "weights.npz", "last.ckpt", "state.pt", "state.pth",
    "modeling_pico.py", "fast.so", "fast.so.1", "__pycache__/modeling_pico.cpython-311.pyc",
    "scaler.pkl", "scaler.pickle", "scaler.joblib",
    "generation_config.json", "preprocessor_config.json", "added_tokens.json", "adapter_config.json", "modules.json",
    "delta.json", "mix.json", "chat_template.json", "Config.JSON",
    "chat_template.jinja", "additional_chat_templates/rag.jinja",
    "vocab.txt", "merges.txt", "spiece.model", "adapter_model.safetensors", "1_Pooling/config.json",
    "a/b/c/d/model.safetensors",
]  # fmt: skip


@pytest.mark.parametrize("name", LOADED)
def test_a_planted_file_that_a_program_would_load_is_a_fault(out, name):
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    (out / name).write_bytes(b"x")
    (fault,) = smelt.verify(out).faults
    assert fault.startswith(f"{name}: the manifest does not know it")


def test_other_unknown_files_are_listed_and_are_no_fault(out):
    others = [".DS_Store", ".gitattributes", "LICENSE", "notes.md", "runs/events.out", "train.log"]
    for name in others:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("x")
    found = smelt.verify(out)
    assert (found.ok, sorted(found.unknown)) == (True, others)


def test_what_version_control_keeps_is_one_entry(out):
    (out / ".git").mkdir()
    (out / ".git" / "hook.py").write_text("x")
    found = smelt.verify(out)
    assert (found.ok, found.unknown) == (True, (".git",))


def test_planted_links_are_named_and_not_followed(out, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (out / "model.bin").symlink_to(tmp_path / "nowhere")
    (out / "1_Pooling").symlink_to(tmp_path / "elsewhere")
    (out / "loop").symlink_to("loop")
    os.mkfifo(out / "tokenizer.json")
    found = smelt.verify(out)
    assert {fault.split(":")[0] for fault in found.faults} == {"model.bin", "1_Pooling", "tokenizer.json"}
    assert found.unknown == ("loop",)


def rewritten(out, change):
    """The manifest with another table of files."""
    manifest = json.loads((out / "manifest.json").read_text())
    change(manifest["files"])
    (out / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("how", ["absolute", "above", "link"])
def test_an_entry_that_leads_out_of_the_folder_is_a_fault(out, tmp_path, how):
    target = tmp_path / "config.json"
    target.write_text("{}")
    (out / "linked.json").symlink_to(target)
    name = {"absolute": str(target), "above": "../config.json", "link": "linked.json"}[how]
    entry = {"blake3": blake3(b"{}").hexdigest(), "bytes": 2}
    rewritten(out, lambda files: files.update({name: entry}))
    faults = smelt.verify(out).faults
    assert any(fault.startswith(f"{name}: ") and "leads out of the folder" in fault for fault in faults)


def test_a_snapshot_in_the_cache_of_the_hub_is_links_to_its_blobs(out, tmp_path):
    snapshot_folder = tmp_path / "models--me--merged" / "snapshots" / "0123"
    blobs = tmp_path / "models--me--merged" / "blobs"
    blobs.mkdir(parents=True)
    for number, (name, content) in enumerate(snapshot(out).items()):
        (blobs / str(number)).write_bytes(content)
        (snapshot_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot_folder / name).symlink_to(blobs / str(number))
    assert smelt.verify(snapshot_folder).faults == ()


@pytest.mark.parametrize("odd", ["x" * 300, "a\0b", "sub", "fifo", "config.json/x"])
def test_an_entry_that_is_no_plain_file_is_a_fault_not_a_crash(out, odd):
    (out / "sub").mkdir()
    os.mkfifo(out / "fifo")
    rewritten(out, lambda files: files.update({odd: {"sha256": "0" * 64, "bytes": 0}}))
    found = smelt.verify(out)
    assert len(found.faults) == 2  # the manifest, and this one


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_a_fault(out):
    (out / "config.json").chmod(0)
    assert [fault.split(" (")[0] for fault in smelt.verify(out).faults] == ["config.json: cannot be read"]


def test_a_manifest_that_is_a_pipe_or_a_loop_is_a_fault_at_once(out):
    (out / "manifest.json").unlink()
    os.mkfifo(out / "manifest.json")
    assert smelt.verify(out).faults == ("manifest.json: is not a plain file",)
    (out / "manifest.json").unlink()
    (out / "manifest.json").symlink_to("manifest.json")
    assert [fault.split(" (")[0] for fault in smelt.verify(out).faults] == ["manifest.json: cannot be looked at"]


def test_packs_and_adapters_are_verified_alike(two, tmp_path):
    base, cars, birds = two
    smelt.pack(cars, base=base, out=tmp_path / "pack")
    words = {"method": "task_arithmetic", "lora": 2, "skip": ["*.bias", "embed.*"]}
    smelt.merge([cars, birds], base=base, out=tmp_path / "adapter", **words)
    for out, planted in ((tmp_path / "pack", "model.safetensors"), (tmp_path / "adapter", "adapter_model.bin")):
        assert smelt.verify(out).ok
        (out / planted).write_bytes(b"x")
        assert [fault.split(":")[0] for fault in smelt.verify(out).faults] == [planted]


def as_smelt_0_2_wrote_it(out):
    """The same folder with a manifest of the old kind: SHA-256 of files and parents, and a seal over them."""
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["manifest_sha256"]
    manifest["smelt"] = "0.2.0"
    for parent in manifest["parents"].values():
        parent["files"] = dict.fromkeys(parent["files"], "0" * 64)
    manifest["files"] = {
        name: {"sha256": hashlib.sha256((out / name).read_bytes()).hexdigest(), "bytes": entry["bytes"]}
        for name, entry in manifest["files"].items()
    }
    body = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    sealed = {**manifest, "manifest_sha256": hashlib.sha256(body).hexdigest()}
    (out / "manifest.json").write_bytes(json.dumps(sealed, indent=2, ensure_ascii=False).encode() + b"\n")


def test_a_manifest_of_smelt_0_2_is_understood(out):
    as_smelt_0_2_wrote_it(out)
    found = smelt.verify(out)
    assert found.ok
    assert found.checked == len(snapshot(out)) - 1


def test_a_changed_byte_beside_a_manifest_of_smelt_0_2_is_found(out):
    as_smelt_0_2_wrote_it(out)
    for name, content in snapshot(out).items():
        if name == "manifest.json":
            continue
        (out / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert smelt.verify(out).faults == (f"{name}: its content has changed (SHA-256 differs from the manifest)",)
        (out / name).write_bytes(content)
    assert smelt.verify(out).ok


def test_a_changed_manifest_of_smelt_0_2_is_found(out):
    as_smelt_0_2_wrote_it(out)
    text = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(text.replace('"0.2.0"', '"0.1.0"'))
    assert smelt.verify(out).faults == ("manifest.json: has been changed since it was written",)


def test_an_entry_with_both_hashes_is_checked_by_blake3(out):
    """Those of a newer Smelt, perhaps; the old one beside it is not asked."""
    rewritten(out, lambda files: [entry.update(sha256="0" * 64) for entry in files.values()])
    assert smelt.verify(out).faults == ("manifest.json: has been changed since it was written",)
    rewritten(out, lambda files: [entry.update(blake3="0" * 64) for entry in files.values()])
    faults = smelt.verify(out).faults
    assert len(faults) == 1 + len(snapshot(out)) - 1
    assert all("BLAKE3 differs" in fault for fault in faults[1:])


def test_a_file_that_ends_while_it_is_hashed_is_a_fault_not_a_crash(out, monkeypatch):
    from smelt.engine.sink import verify

    weights = next(out.glob("*.safetensors"))

    def shrinking(path):
        if path == weights:
            tree = TreeHash(path.stat().st_size)
            os.truncate(path, 10)
            return tree.finish(path)
        return blake3_of(path)

    monkeypatch.setattr(verify, "blake3_of", shrinking)
    (fault,) = smelt.verify(out).faults
    assert fault.startswith(f"{weights.name}: cannot be read (")
    assert "ended while it was being hashed" in fault
