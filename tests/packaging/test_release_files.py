"""What is said for releases in several places is the same everywhere, and names what there is."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from smelt.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = [
    found[1]
    for line in PROJECT["project"]["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
STEPS = [step for flow in WORKFLOWS.values() for job in flow["jobs"].values() for step in job.get("steps", [])]


def test_tests_run_on_every_python_that_is_promised():
    assert WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"


def test_a_wheel_is_tried_on_the_oldest_and_the_newest_python():
    short = [version.replace(".", "") for version in (PYTHONS[0], PYTHONS[-1])]
    assert PROJECT["tool"]["cibuildwheel"]["build"] == [f"cp{version}-*" for version in short]


def test_no_action_can_change_behind_its_name():
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert len(used) > 10
    assert [name for name in used if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name)] == []


def test_no_workflow_may_write_unless_a_job_says_so():
    assert [name for name, flow in WORKFLOWS.items() if flow["permissions"] != {"contents": "read"}] == []
    tokens = [
        f"{name}.{key}" for name, flow in WORKFLOWS.items() for key, job in flow["jobs"].items() if "permissions" in job
    ]
    assert sorted(tokens) == ["docs.publish", "release.publish"]


@pytest.mark.parametrize(
    "target", sorted({word for step in STEPS for word in re.findall(r"make ([a-z-]+)", str(step))})
)
def test_workflows_call_targets_that_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_tests_that_workflows_name_exist():
    named = [word for step in STEPS for word in re.findall(r"tests/[\w/.]+", str(step.get("run", "")))]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_citation_is_of_the_release_in_development():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__.partition(".dev")[0]
    assert citation["license"] == PROJECT["project"]["license"]


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.cuda"])
def test_a_container_has_the_torch_and_the_python_that_are_tested(name):
    text = (ROOT / name).read_text()
    torch = re.findall(r"^torch==.+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert re.findall(r"torch==[\d.]+", text) == torch
    assert set(re.findall(r"^FROM python:(3\.\d+)-", text, re.MULTILINE)) <= set(PYTHONS)
    extras = set(re.findall(r"\[([a-z,]+)\]\"", text)[0].split(","))
    assert extras <= PROJECT["project"]["optional-dependencies"].keys()


def test_what_the_security_policy_names_exists():
    text = (ROOT / "SECURITY.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"`(tests/[^`]+)`", text)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_a_bug_report_asks_for_what_the_command_prints():
    report = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text())
    (asked,) = [field for field in report["body"] if field.get("id") == "info"]
    assert "`smelt info`" in asked["attributes"]["label"]
    assert asked["validations"]["required"]
    assert re.search(r"^## .*smelt info|smelt info", (ROOT / "docs" / "reference" / "commands.md").read_text())


def test_hooks_before_a_commit_are_those_of_make_check():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    checked = re.findall(r"^\t\$\(BIN\)/([\w-]+)(?: (check|format))?", _rule("check"), re.MULTILINE)
    said = [re.match(r"\.venv/bin/([\w-]+)(?: (check|format))?", hook["entry"]).groups("") for hook in hooks]
    assert said == checked


def _rule(target):
    return re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
