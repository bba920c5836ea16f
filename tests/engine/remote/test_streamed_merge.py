"""Merges whose models lie on a server: the bytes of a local merge, no copy here, faults asked again or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import smelt
from models_afar import weights_of, write_model, write_models
from range_server import FAULTS, Asked, RangeServer, range_server
from smelt.errors import InputChanged, OutputError, RecipeError, SmeltError

pytest.importorskip("obstore")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    write_models(folder, 3, width=1024)
    return folder


@pytest.fixture(autouse=True)
def _asks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.files.remote.faults._FIRST", 0.002)


@pytest.fixture
def server(root: Path) -> Iterator[RangeServer]:
    with range_server(root) as found:
        yield found


def merged(where: str, out: Path, method: Any = "linear", base: bool = False, **words: Any) -> Any:
    given = {"base": f"{where}/m0"} if base else {}
    return smelt.merge({"a": f"{where}/m1", "b": f"{where}/m2"}, method=method, out=out, **given, **words)


@pytest.mark.parametrize(("method", "base"), [("linear", False), ("ties", True), ("dare,ties".split(","), True)])
def test_a_streamed_merge_has_the_bytes_and_the_parents_hashes_of_a_local_one(
    method: Any, base: bool, root: Path, server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged(str(root), tmp_path / "local", method, base)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    merged(server.url, tmp_path / "afar", method, base)
    assert weights_of(tmp_path / "afar") == weights_of(tmp_path / "local")
    assert not [name for name in os.listdir(tmp_path / "temporary") if name.startswith("smelt-afar")]
    manifest = json.loads((tmp_path / "afar/manifest.json").read_text())
    assert manifest["parents"]["a"]["ref"] == f"{server.url}/m1"


def test_a_spectral_merge_reads_whole_matrices_from_afar(tmp_path: Path) -> None:
    write_models(tmp_path / "served", 3, width=256)
    merged(str(tmp_path / "served"), tmp_path / "local", "iso_c", True)
    with range_server(tmp_path / "served") as server:
        merged(server.url, tmp_path / "afar", "iso_c", True, memory="20MB")
    assert weights_of(tmp_path / "afar") == weights_of(tmp_path / "local")


def test_an_adapter_and_a_pack_at_addresses_stand_over_a_base_at_one(tmp_path: Path) -> None:
    root = tmp_path / "served"
    write_models(root, 3, width=256)
    factors = {"lora_A.weight": torch.ones(2, 256), "lora_B.weight": torch.ones(256, 2)}
    (root / "lora").mkdir()
    named = {f"base_model.model.layers.0.mlp.{name}": one for name, one in factors.items()}
    save_file(named, root / "lora/adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["mlp"]}
    (root / "lora/adapter_config.json").write_text(json.dumps(config))
    with range_server(root) as server:
        smelt.pack(str(root / "m1"), base=f"{server.url}/m0", out=root / "pack", bits=8)
        for where, out in ((str(root), "local"), (server.url, "afar")):
            models = {"a": f"{where}/m0+{where}/lora", "b": f"{where}/m2", "c": f"{where}/pack"}
            smelt.merge(models, out=tmp_path / out)
        assert weights_of(tmp_path / "afar")[0] == weights_of(tmp_path / "local")[0]
        assert smelt.inspect(f"{server.url}/m0+{server.url}/lora").adapter is not None


def test_a_linear_merge_asks_for_every_byte_once_and_a_plan_for_headers_only(
    server: RangeServer, root: Path, tmp_path: Path
) -> None:
    size = sum((root / name / "model.safetensors").stat().st_size for name in ("m1", "m2"))
    smelt.plan([f"{server.url}/m1", f"{server.url}/m2"], method="linear")
    assert server.bytes_asked() <= 2 * (1 << 20) + 2  # a first look at each, and one at the end
    server.requests.clear()
    merged(server.url, tmp_path / "out")
    assert server.bytes_asked() <= size + 2 * (1 << 20) + 2
    server.requests.clear()
    assert smelt.inspect(f"{server.url}/m1").parameters == 6 * 1024 * 1024 + 1024
    assert server.bytes_asked() <= 1 << 20


@pytest.mark.parametrize("fault", FAULTS)
def test_every_third_answer_may_go_wrong(
    fault: str, root: Path, server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smelt.files.remote.store._STALL", 0.3)
    merged(str(root), tmp_path / "local", "ties", True, memory="60MB")
    server.fault = lambda asked: fault if asked.number % 3 == 2 and asked.start else None
    if fault == "larger":  # another size is another file
        with pytest.raises(InputChanged, match="changed while it was being used"):
            merged(server.url, tmp_path / "afar", "ties", True, memory="60MB")
        assert not (tmp_path / "afar").exists()
        return
    merged(server.url, tmp_path / "afar", "ties", True, memory="60MB")
    assert weights_of(tmp_path / "afar") == weights_of(tmp_path / "local")


@pytest.mark.parametrize("has_etags", [True, False])
def test_a_file_that_changes_during_the_run_is_refused_and_leaves_nothing(has_etags: bool, tmp_path: Path) -> None:
    root = tmp_path / "served"
    write_models(root, 3, width=1024)
    with range_server(root) as server:
        server.has_etags = has_etags
        file, changed = root / "m2/model.safetensors", []

        def change(asked: Asked) -> None:
            if asked.start >= 1 << 20 and not changed:
                changed.append(asked)
                content = bytearray(file.read_bytes())
                content[-1] ^= 1
                (root / "new").write_bytes(content)
                os.utime(root / "new", (1, 1))
                (root / "new").rename(file)

        server.fault = change
        with pytest.raises(InputChanged, match=f"changed while it was being used: {server.url}/m2/model.safetensors"):
            merged(server.url, tmp_path / "out")
    assert changed
    assert not [one.name for one in tmp_path.iterdir() if one.name != "served"]


@pytest.mark.parametrize("status", ["busy", "unavailable"])
def test_a_server_that_says_how_long_it_is_busy_is_left_alone_that_long(
    status: str, server: RangeServer, tmp_path: Path
) -> None:
    server.retry_after = "1"
    busy: list[Asked] = []

    def fault(asked: Asked) -> str | None:
        if asked.method == "HEAD" or (asked.start and not busy):
            busy.append(asked)
            return status
        return None

    server.fault = fault
    merged(server.url, tmp_path / "out", memory="40MB")
    first, probe = busy  # obstore shows no headers, so these are asked for alone
    again = next(
        one
        for one in server.requests
        if one.number > probe.number and (one.path, one.start) == (first.path, first.start)
    )
    assert server.times[again.number] - server.times[probe.number] >= 1


def test_every_request_for_content_names_the_version(server: RangeServer, tmp_path: Path) -> None:
    merged(server.url, tmp_path / "out")
    later = [sent for asked, sent in zip(server.requests, server.headers, strict=True) if asked.start]
    assert later
    assert all(sent.get("if-match", "").startswith('"') for sent in later)


def test_shards_come_by_the_index_and_a_lost_one_is_named(tmp_path: Path) -> None:
    root = tmp_path / "served"
    state = {f"layers.{n}.w": torch.full((4, 4), float(n)) for n in range(4)}
    for name in ("a", "b"):
        write_model(root / name, state, shards=2)
    with range_server(root) as server:
        smelt.merge([f"{server.url}/a", f"{server.url}/b"], out=tmp_path / "out")
        (root / "b/model-00002-of-00002.safetensors").unlink()
        with pytest.raises(SmeltError, match=r"shards that are not there: model-00002-of-00002\.safetensors"):
            smelt.merge([f"{server.url}/a", f"{server.url}/b"], out=tmp_path / "more")
    smelt.merge([str(root / "a")], out=tmp_path / "local")
    assert weights_of(tmp_path / "out")[0] == weights_of(tmp_path / "local")[0]


def test_an_address_with_a_signature_is_used_and_never_shown(server: RangeServer, root: Path, tmp_path: Path) -> None:
    secret = "X-Signature=abc123"
    pool = {"a": f"{server.url}/m1?{secret}", "b": f"{server.url}/m2/model.safetensors?{secret}"}
    smelt.merge(pool, out=tmp_path / "out")
    assert all(one.query == secret for one in server.requests)
    shown = b"".join(file.read_bytes() for file in sorted((tmp_path / "out").iterdir()))
    assert b"abc123" not in shown
    assert f"{server.url}/m2/model.safetensors".encode() in shown
    merged(str(root), tmp_path / "local")
    assert weights_of(tmp_path / "out") == weights_of(tmp_path / "local")
    with pytest.raises(SmeltError) as found:
        smelt.inspect(f"{server.url}/none?{secret}")
    assert "abc123" not in str(found.value)


def test_what_is_wrong_with_an_address_is_said_in_one_line(server: RangeServer, tmp_path: Path) -> None:
    wrong = {
        f"{server.url}/none": "there is no model here",
        f"{server.url}/m1/none.safetensors": "there is no such file on the server",
        "http://127.0.0.1:9/m1": "the server cannot be reached; check the name and the network",
        "https://no-such-host.invalid/m1": "the server cannot be reached; check the name and the network",
        "https:///m1": "is no address",
    }
    for ref, said in wrong.items():
        with pytest.raises(RecipeError) as found:
            smelt.merge([f"{server.url}/m2", ref], out=tmp_path / "out")
        assert said in str(found.value)
        assert "\n" not in str(found.value)


def test_the_buffer_is_in_the_plans_memory_and_in_its_limit(server: RangeServer, root: Path) -> None:
    models = [f"{server.url}/m1", f"{server.url}/m2"]
    local = smelt.plan([str(root / "m1"), str(root / "m2")])
    assert smelt.plan(models).work_memory > local.work_memory + (256 << 20) - 1
    assert smelt.plan(models, memory="40MB").work_memory <= 40 * 10**6
    with pytest.raises(RecipeError, match="for what comes from afar, more than the limit of"):
        smelt.plan(models, memory="2MB")


def test_ctrl_c_ends_a_stalled_run_at_once_and_leaves_no_folder_behind(root: Path, tmp_path: Path) -> None:
    with range_server(root) as server:
        stalled = threading.Event()
        server.fault = lambda asked: (stalled.set(), "stall")[1] if asked.start else None
        command = [
            sys.executable,
            "-c",
            "from smelt.cli import process; process()",
            "merge",
            "-m",
            "linear",
            "-o",
            str(tmp_path / "out"),
        ]
        command += ["--model", f"{server.url}/m1", "--model", f"{server.url}/m2"]
        environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
        (tmp_path / "temporary").mkdir()
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as run:
            assert stalled.wait(60)
            began = time.monotonic()
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=15)[1]  # a stall lasts 20 seconds
        assert time.monotonic() - began < 15
        assert run.returncode == 1
        assert "interrupted; what is finished is kept in" in said
        assert not list((tmp_path / "temporary").iterdir())


def test_a_server_that_is_lost_for_good_ends_the_run_and_resume_goes_on(
    server: RangeServer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smelt.files.remote.faults._LONGEST", 0.01)
    server.fault = lambda asked: "error" if asked.start > 9 << 20 else None
    with pytest.raises(OutputError, match=r"m\d/model\.safetensors: the server is busy or broken \(it answers 500\)"):
        merged(server.url, tmp_path / "out", memory="40MB")
    server.fault = lambda asked: None
    assert merged(server.url, tmp_path / "out", memory="40MB", resume=True).resumed > 0
    merged(str(root), tmp_path / "local")
    assert weights_of(tmp_path / "out") == weights_of(tmp_path / "local")
