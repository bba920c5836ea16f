"""Who takes part in a run of a hub suite: the models that can be had, what each reads with, who is left out and why."""

from __future__ import annotations

from collections.abc import Callable

from smelt.errors import RecipeError, SmeltError
from smelt.recipe.schema import Pool
from smelt.runs.fingerprint import given_fingerprint, model_fingerprints
from smelt.suites.hub.readers import find_readers
from smelt.suites.hub.suite import HubSuite
from smelt.suites.state import RunState

__all__ = ["HubMembers"]


class HubMembers:
    """The models of a suite; `tell` hears of those that are left out."""

    def __init__(self, suite: HubSuite, tell: Callable[[str], None]):
        self._suite, self._tell = suite, tell
        self.models = suite.references()
        self.readers: dict[str, str] = {}
        """The reference of the reader of each model that has one."""
        self._models_left_out: dict[str, str] = {}
        self.methods_left_out: dict[str, str] = {}
        self.prints = self._fingerprints()

    def find_readers(self, *, needed: bool) -> None:
        """What each model reads with, where a method of the suite reads with a reader.

        Readers that are not to be had are a fault only if they are needed. Where models may be left out so may readers:
        then the methods that read with them are.
        """
        reading = [name for name, method in self._suite.methods.items() if method.reader]
        try:
            if reading:
                pickle = self._suite.allow_pickle
                self.readers = find_readers(self._suite.readers, self.models, allow_pickle=pickle)
        except SmeltError as error:
            if needed and self._suite.unloadable == "refuse":
                raise
            if needed:
                self.methods_left_out = dict.fromkeys(reading, _first_line(error))
                self._tell(f"Methods {', '.join(reading)}: LEFT OUT, {_first_line(error)}")

    def reader_prints(self) -> dict[str, str]:
        """Hashes over the files of each model's reader, its tokenizer's among them."""
        pickle = self._suite.allow_pickle
        prints = {ref: given_fingerprint(ref, allow_pickle=pickle) for ref in set(self.readers.values())}
        return {name: prints[ref] for name, ref in self.readers.items()}

    def leave_out_failed(self, state: RunState) -> None:
        """Models whose own step failed; the others go on without them. The run's folder says who was left out."""
        for name in list(self.models):
            error = state.failures.pop(f"Model {name}", None)
            if error is not None:
                self._leave_out(name, error)
        if self._models_left_out or self.methods_left_out:
            content = {"models": self._models_left_out, "methods": self.methods_left_out}
            state.write_analysis("hub-left-out", {word: names for word, names in content.items() if names})
        self._check_enough()

    def _fingerprints(self) -> dict[str, str]:
        """Of the models' files, which are fetched where they are not here; who cannot be had may be left out."""
        found: dict[str, str] = {}
        pickle = self._suite.allow_pickle
        for name, ref in list(self.models.items()):
            try:
                found |= model_fingerprints(Pool(models={name: ref}), allow_pickle=pickle)
            except SmeltError as error:
                if self._suite.unloadable == "refuse":
                    raise
                self._leave_out(name, error)
                self._tell(f"Model {name}: LEFT OUT, {_first_line(error)}")
        self._check_enough()
        return found

    def _leave_out(self, name: str, error: SmeltError) -> None:
        self._models_left_out[name] = _first_line(error)
        self.models = {one: ref for one, ref in self.models.items() if one != name}
        self.readers = {one: ref for one, ref in self.readers.items() if one != name}

    def _check_enough(self) -> None:
        if len(self.models) < 2:
            some = "".join(f"\n  - {name}: {why}" for name, why in list(self._models_left_out.items())[:5])
            fault = "fewer than two models could be loaded, so there is no choice:"
            raise RecipeError(f"{self._suite.name}: {fault}{some}")


def _first_line(error: SmeltError) -> str:
    return str(error).splitlines()[0]
