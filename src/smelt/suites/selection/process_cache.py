"""What a process keeps between the models that it asks: the sets' questions, pictures seen, the models open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.recipe.schema import Recipe
from smelt.select.group_merges import GroupMerges
from smelt.select.logit_store import LogitStore
from smelt.select.option_sets import OptionSets
from smelt.select.scores import Scorer
from smelt.suites.selection.judged_sets import JudgedSet, judged_sets
from smelt.tasks.perturbations.perturbation import Perturbation

__all__ = ["Session", "forget_session", "session_of"]


class Session:
    """The sets of a suite, with the store of all answers."""

    def __init__(self, words: Mapping[str, Any]):
        """`words` are `store`, `kinds` ({kind: {tasks, split}}), `perturbations`, `repeats`, `limit`, and how."""
        how = {word: words[word] for word in ("limit", "device", "dtype", "allow_pickle")}
        self.store = LogitStore(words["store"])
        self.judged: dict[str, list[JudgedSet]] = {}
        for kind, one in words["kinds"].items():
            if one["tasks"]:
                self.judged[kind], scorer = judged_sets(one["tasks"], one["split"], how, self.store)
                if kind == "held_in":
                    self._held_in = _by_letters(self.judged[kind], scorer)
        self.perturbed = {
            name: Scorer(replace(self._held_in, perturbation=Perturbation(**one)), self.store, repeats=words["repeats"])
            for name, one in words["perturbations"].items()
        }
        self._open: tuple[str, GroupMerges] | None = None

    def groups(self, recipe: Recipe, prints: Mapping[str, str]) -> GroupMerges:
        """The models of a recipe, open; those of the recipe before it are closed."""
        if self._open is None or self._open[0] != recipe.hash:
            self.close()
            self._open = recipe.hash, GroupMerges(recipe, None, dict(prints))
        return self._open[1]

    def load(self, model: Any) -> Any:
        """A model in memory, from a reference or a Source."""
        return self._held_in.load(model)

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def _by_letters(sets: Sequence[JudgedSet], scorer: Scorer | None) -> OptionSets:
    """The sets that models are chosen by, which have to have options."""
    written = next((one.task for one in sets if not one.task.answered_by_option), None)
    if written is not None or scorer is None:
        name = written.reference if written is not None else ""
        raise RecipeError(
            f"held_in: {name} is answered in words, and uncertainty is about options; "
            "give question sets, or tasks of lmms-eval by their letters (lmms:ai2d@letters)"
        )
    return scorer.option_sets


def session_of(words: Mapping[str, Any]) -> Session:
    """The session of this process; where the words are others, it is closed and another one takes its place."""
    global _kept
    text = json.dumps({**words, "store": str(Path(words["store"]))}, sort_keys=True)
    if _kept is None or _kept[0] != text:
        forget_session()
        _kept = text, Session(json.loads(text))
    return _kept[1]


def forget_session() -> None:
    """Close the models, and let go of what was kept."""
    global _kept
    if _kept is not None:
        _kept[1].close()
        _kept = None


_kept: tuple[str, Session] | None = None
"""The words of the one session that a process has, and the session."""
