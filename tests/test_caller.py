"""Errors name what to do in the words of whoever asked: flags in a shell, keywords in Python, keys in a recipe."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import smelt
from smelt.caller import Blank, asked_by_recipe, base_word, from_shell, option, pipeline, word
from smelt.errors import RecipeError, SmeltError

SOURCES = Path(smelt.__file__).parent


def test_an_option_is_a_keyword_in_python_and_a_flag_in_a_shell():
    assert option("force") == "force=True"
    assert option("text_from", Blank("REF")) == "text_from=REF"
    with from_shell():
        assert option("force") == "--force"
        assert option("text_from", Blank("REF")) == "--text-from REF"
        assert option("skip", "head.*") == "--skip 'head.*'"
    assert option("force") == "force=True"


def test_a_word_of_the_recipe_is_written_as_the_request_was():
    assert word("skip", "head.*") == "`skip='head.*'`"
    assert (base_word(), pipeline(["dare", "ties"])) == ("`base=REF`", "`method='dare,ties'`")
    with from_shell():
        assert word("skip", "head.*") == "`--set 'skip=head.*'`"
        assert word("include", "*") == """`--set "include='*'"`"""
        assert word("include", "*$") == """`--set 'include='"'"'*$'"'"''`"""
        assert word("dtype", "bfloat16") == "`--dtype bfloat16`"
        assert (base_word(), pipeline(["dare", "ties"])) == ("`--base REF`", "`-m dare,ties`")
    with asked_by_recipe(True):
        assert word("include", "*") == "`include: '*'`"
        assert (base_word(), pipeline(["dare", "ties"])) == ("`base: REF` under `pool`", "`merge: [dare, ties]`")


def test_an_existing_output_names_force_in_each_language(two, tmp_path, cli):
    _, cars, birds = two
    out = tmp_path / "out"
    smelt.merge([str(cars), str(birds)], out=out)
    with pytest.raises(SmeltError, match=r"write force=True to replace it"):
        smelt.merge([str(cars), str(birds)], out=out)
    ran = cli("merge", "--model", cars, "--model", birds, "-o", out)
    assert "write --force to replace it" in ran.err
    assert "force=True" not in ran.err


def test_a_missing_base_is_asked_for_in_each_language(two, tmp_path, cli):
    _, cars, birds = two
    with pytest.raises(RecipeError, match=r"none is given: `base=REF`"):
        smelt.plan([str(cars), str(birds)], method="ties")
    assert "none is given: `--base REF`" in cli("plan", "-m", "ties", "--model", cars, "--model", birds).err
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"pool: {{models: [{cars}, {birds}]}}\nmerge: ties\n")
    assert "none is given: `base: REF` under `pool`" in cli("plan", recipe).err


def test_no_message_below_the_command_line_names_a_flag():
    """They say `option(...)`, which knows who reads it. Whole command lines (`smelt measure ...`) are for a shell."""
    found = []
    for file in sorted(SOURCES.rglob("*.py")):
        inside = file.relative_to(SOURCES)
        if inside.parts[0] in ("cli", "compat", "caller.py"):  # command lines, and what makes flags
            continue
        if inside.as_posix() == "system/variables.py":  # a page's table of what a shell may set
            continue
        for line, text in _texts(ast.parse(file.read_text(encoding="utf-8"))):
            flag = re.search(r"(?:^|[\s(`'\"])--[a-z][a-z-]+", text)
            piece = re.fullmatch(r" ?--[a-z-]+(=\w+)?( .*)?", text)  # of a command line that is being put together
            whole = re.search(r"^\.\.\. --|(smelt|pip install|git|llama-gguf-split) [^;]*--", text)
            if flag and not piece and not whole:
                found.append(f"{inside}:{line}: {text!r}")
    assert found == []


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string that is no docstring; one that is put together, as a whole with dots for what is put in."""
    inner = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    inner |= {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value
