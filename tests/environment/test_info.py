"""`smelt info`: what a report of a bug should say, true, quick, and without names of users or keys."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import smelt
from smelt.environment.extras import GIVES, extras, libraries
from smelt.system.hardware import Gpu, Gpus
from smelt.system.variables import VARIABLES

SOURCE = Path(smelt.__file__).parent
PROJECT = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]


def cpu_seconds(*words):
    """The least CPU time of a few runs of a command."""

    def once():
        before = os.times()
        command = [sys.executable, "-c", "from smelt.cli import process; process()", *words]
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(once() for _ in range(3))


def test_it_says_which_versions_are_there(cli):
    from importlib.metadata import version

    found = json.loads(cli("info", "--json").out)
    assert found["smelt"] == smelt.__version__
    assert found["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert found["libraries"]["torch"] == version("torch")
    assert found["cores"] == len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else found["cores"] > 0


def test_it_takes_less_than_a_second_and_does_not_load_torch():
    script = """
import sys, smelt
smelt.info()
print("LOADED", *[m for m in ("torch", "transformers", "huggingface_hub") if m in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["LOADED"]
    assert cpu_seconds("info") < 1.0


def test_every_extra_of_the_package_is_explained():
    assert set(GIVES) == set(PROJECT["optional-dependencies"])


def test_an_extra_with_missing_and_old_libraries_says_so(monkeypatch):
    from smelt.environment import extras as module

    monkeypatch.setattr(module, "_declared", lambda: [
        "numpy>=1.26",
        'sound==1.5; extra == "clip"',
        'old>=2.0; extra == "clip"',
        'absent>=3; extra == "clip"',
        'elsewhere; sys_platform == "plan9" and extra == "clip"',
        'smelt[clip]; extra == "hub"',
        'more>=1; extra == "hub"',
    ])  # fmt: skip
    there = {"sound": "1.5", "old": "1.9", "more": "1.0"}
    monkeypatch.setattr(module, "_version", there.get)
    clip, hub = module._extra("clip"), module._extra("hub")
    assert clip.libraries == {"absent": None, "old": "1.9", "sound": "1.5"}
    assert (clip.lacks, clip.there) == (["absent>=3", "old>=2.0"], False)
    assert hub.lacks == ["absent>=3", "old>=2.0"]
    assert hub.libraries["more"] == "1.0"
    assert hub.install == "pip install 'smelt[hub]'"
    assert module.libraries() == {"numpy": None, "smelt-zoo": None}


def test_what_is_installed_is_there():
    declared = {re.match(r"[\w-]+", one)[0].lower() for one in PROJECT["dependencies"]}
    assert declared - {"packaging", "blake3"} <= {name.lower() for name in libraries()}  # an older install has others
    assert {one.name for one in extras()} <= set(GIVES)


def test_every_variable_that_the_code_reads_is_in_the_table():
    """Those that others own are read in two files; a literal name in any other is Smelt's, and is in the table."""
    read = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.environ.get", "os.getenv"):
                first = node.args[0]
                read |= {first.value} if isinstance(first, ast.Constant) else set()
    assert {name for name in read if name.startswith("SMELT_")} == {n for n in VARIABLES if n.startswith("SMELT_")}
    others = {
        "HF_HOME",
        "TRITON_CACHE_DIR",
        "WORLD_SIZE",
        "CUDA_VISIBLE_DEVICES",
        "COMP_WORDBREAKS",
        "XDG_CONFIG_HOME",
        "ZDOTDIR",
    }  # the last three are shells'
    assert read - others <= set(VARIABLES)


def test_no_name_of_a_user_and_no_key_is_told(monkeypatch, tmp_path, cli):
    home = tmp_path / "home" / "lovelace"
    (home / "smelt-cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SMELT_CACHE", str(home / "smelt-cache"))
    monkeypatch.setenv("SMELT_HUB", "postgresql://lovelace:secret@example.org/hub")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("NLTK_DATA", f"{home}/nltk{os.pathsep}/usr/share/nltk")
    for flags in ((), ("--json",)):
        said = cli("info", *flags).out
        assert "lovelace" not in said
        assert "secret" not in said
    found = json.loads(said)
    assert found["variables"]["SMELT_CACHE"] == os.path.join("~", "smelt-cache")
    assert found["variables"]["SMELT_HUB"] == "postgresql://(not shown)"
    assert found["variables"]["HF_TOKEN"] == "(set)"
    assert found["variables"]["NLTK_DATA"] == f"~/nltk{os.pathsep}/usr/share/nltk"


def test_sizes_of_caches_are_those_of_their_files(monkeypatch, tmp_path):
    (tmp_path / "hf" / "hub").mkdir(parents=True)
    (tmp_path / "hf" / "hub" / "blob").write_bytes(bytes(1234))
    (tmp_path / "hf" / "hub" / "link").symlink_to("blob")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("SMELT_HUB", str(tmp_path / "nowhere"))
    sizes = {one.what: one.bytes for one in smelt.info().caches}
    assert sizes["Hugging Face"] == 1234 + len("blob")  # a link is as large as the name that it holds
    assert sizes["hub"] is None


def test_why_compiled_parts_are_not_used(tmp_path, monkeypatch):
    from smelt.environment.compiled import _why_not

    monkeypatch.setenv("SMELT_FUSED", "0")
    assert _why_not(tmp_path, "_machine") == "SMELT_FUSED is 0"
    monkeypatch.delenv("SMELT_FUSED")
    assert _why_not(tmp_path, "_machine").startswith("not compiled")
    (tmp_path / "_machine.ctypes.so").write_bytes(b"no library")
    assert "made for another system" in _why_not(tmp_path, "_machine")


def test_without_the_compiled_parts_it_says_why():
    ran = subprocess.run(
        [sys.executable, "-c", "from smelt.cli import process; process()", "info", "--json"],
        env={**os.environ, "SMELT_FUSED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    parts = json.loads(ran.stdout)["compiled"]
    assert [one["used"] for one in parts] == [False, False, False]
    assert all(one["why"].startswith("SMELT_FUSED is 0; ") for one in parts)


def test_the_machine_knows_its_vector_instructions():
    from smelt.engine.run.cpu.machine import library
    from smelt.environment.compiled import _INSTRUCTIONS

    if library() is None:
        pytest.skip("the vector machine was not compiled")
    said = library().smelt_instructions()
    assert said in _INSTRUCTIONS
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if flags and said in (3, 4):
        assert re.search(r"\bavx512vl\b" if said == 4 else r"\bavx2\b", flags)


@pytest.mark.parametrize(
    ("found", "built", "said"),
    [
        (Gpus(None, [], "no driver of NVIDIA's"), None, "none: no driver of NVIDIA's"),
        (Gpus("570.1", [Gpu("H200", 150_000_000_000)], None), None, "not used: this torch was built for processors"),
        (Gpus("570.1", [Gpu("H200", 150_000_000_000)], None), "CUDA 12.8", "can be used (device: cuda); driver 570.1"),
    ],
)
def test_whether_a_gpu_can_be_used_is_told_without_torch(monkeypatch, found, built, said):
    monkeypatch.setattr("smelt.system.hardware.gpus", lambda: found)
    monkeypatch.setattr("smelt.system.hardware.torch_built_for", lambda: built)
    told = smelt.info()
    assert told.gpu.startswith(said)
    assert told.gpus == [f"{one.name}, 150 GB" for one in found.found]


def test_what_torch_was_built_for_is_read_from_its_file(monkeypatch, tmp_path):
    from importlib.machinery import ModuleSpec

    from smelt.system.hardware import torch_built_for

    spec = ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    file = tmp_path / "version.py"
    file.write_text("__version__ = '2.9.0'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n")
    assert torch_built_for() is None
    file.write_text("__version__ = '2.9.0'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
    assert torch_built_for() == "CUDA 12.8"
    file.write_text("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n")
    assert torch_built_for() == "ROCm 6.4"


def test_every_line_fits_a_terminal_of_80_columns(cli):
    lines = cli("info").out.splitlines()
    assert [line for line in lines if len(line) > 80 and " " in line[13:]] == []  # but for a long path on its own
    assert lines[0].startswith(f"smelt        {smelt.__version__}")


def test_the_keys_of_stores_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.environment.info import _variables

    for name in ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.setenv(name, "account=a;key=very-secret")
        assert _variables()[name] == "(set)"
