"""`smelt verify`: 0 when every byte is as the manifest says, 1 when not, 2 where there is nothing to verify."""

import json

import pytest

import smelt


@pytest.fixture
def out(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "out")
    return tmp_path / "out"


def test_an_untouched_output_exits_with_0(out, cli):
    ran = cli("verify", out)
    assert (ran.code, ran.err) == (0, "")
    assert "3 files" in ran.out


def test_a_changed_byte_exits_with_1_and_names_the_file(out, cli):
    path = out / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    ran = cli("verify", out)
    assert ran.code == 1
    assert "model.safetensors" in ran.err
    assert "config.json" not in ran.err


def test_json_says_the_same(out, cli):
    assert json.loads(cli("verify", out, "--json").out)["ok"] is True
    (out / "config.json").unlink()
    ran = cli("verify", out, "--json")
    report = json.loads(ran.out)
    assert (ran.code, report["ok"], report["faults"]) == (1, False, ["config.json: is missing"])


def test_a_folder_without_a_manifest_exits_with_2(two, tmp_path, cli):
    assert cli("verify", two[0]).code == 2
    assert cli("verify", tmp_path / "ghost").code == 2


def test_a_planted_file_exits_with_1_and_others_are_listed(out, cli):
    (out / "notes.txt").write_text("mine")
    ran = cli("verify", out)
    assert (ran.code, ran.err) == (0, "")
    assert "1 more that it does not know and no program would load: notes.txt" in ran.out
    (out / "1_Pooling").mkdir()
    (out / "1_Pooling" / "config.json").write_text("{}")
    ran = cli("verify", out)
    assert ran.code == 1
    assert ran.err == (
        "smelt: 1_Pooling/config.json: the manifest does not know it, and it could change what is loaded\n"
    )
    report = json.loads(cli("verify", out, "--json").out)
    assert (report["unknown"], len(report["faults"])) == (["notes.txt"], 1)


def test_names_that_no_line_can_hold_are_escaped(out, cli):
    import os

    os.close(os.open(os.fsencode(out) + b"/no\xff\ntes", os.O_CREAT))
    (out / "a\nsmelt: b.bin").write_text("x")
    ran = cli("verify", out)
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1
