"""A release's version is its tag's; everything else is the release that comes next, in development."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smelt.version import __version__

ROOT = Path(__file__).parents[2]
NEXT = __version__.partition(".dev")[0]


@pytest.fixture
def tree(tmp_path):
    """A repository with what a version is made of, at one commit."""
    (tmp_path / "src" / "smelt").mkdir(parents=True)
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo-more").mkdir()
    for name in ("setup.py", "src/smelt/version.py", "zoo/setup.py", "zoo-more/setup.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
    return tmp_path


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True)


def version(folder):
    command = [sys.executable, "setup.py", "-q", "--version"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout.split()[-1] if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(("folder", "tag"), [(".", "v"), ("zoo", "zoo-v"), ("zoo-more", "zoo-v")])
def test_a_tag_makes_a_release_of_the_commit_that_has_it(tree, folder, tag):
    assert version(tree / folder) == f"{NEXT}.dev0"
    git(tree, "tag", f"{tag}{NEXT}")
    assert version(tree / folder) == NEXT
    (tree / "setup.py").write_text((tree / "setup.py").read_text() + "# changed\n")
    assert version(tree / folder) == f"{NEXT}.dev0"


def test_the_other_s_tag_says_nothing(tree):
    git(tree, "tag", f"zoo-v{NEXT}")
    assert version(tree) == f"{NEXT}.dev0"


@pytest.mark.parametrize(("folder", "tag"), [(".", "v9.9.9"), ("zoo", "zoo-v9.9.9"), ("zoo-more", "zoo-v9.9.9")])
def test_a_tag_that_is_not_the_release_in_development_is_refused(tree, folder, tag):
    git(tree, "tag", tag)
    assert version(tree / folder).startswith(f"smelt: the tag {tag} is not the release")


def test_without_git_the_version_is_the_written_one(tree):
    git(tree, "tag", f"v{NEXT}")
    shutil.rmtree(tree / ".git")
    assert version(tree) == __version__
