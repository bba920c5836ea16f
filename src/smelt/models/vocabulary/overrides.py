"""Overrides: where the row of one token comes from, written in a recipe for that token alone.

In: the `tokens:` table of a recipe, in mergekit's words. Out: one `TokenOverride` per token.
    {source: cars} · {source: {kind: model_token, model: cars, token: "<s>"}} · {source: zero, force: true}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.formats.tokenizer.vocabulary import Vocabulary

__all__ = ["TokenOverride"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOverride:
    model: str | None = None
    """Whose row; None is a row of zeros."""
    token: str | None = None
    """Which of its tokens, where it is not the same one."""
    token_id: int | None = None
    """Or which of its rows."""
    force: bool = False
    """True: for every model, also those that have the token. False: for those that lack it."""

    @classmethod
    def parse(cls, token: str, given: TokenOverride | Mapping[str, Any]) -> TokenOverride:
        if isinstance(given, TokenOverride):
            return given
        where = f"the override of token {token!r}"
        if not isinstance(given, Mapping) or set(given) - {"source", "force"} or given.get("source") is None:
            raise RecipeError(f"{where} is {given!r}; write {{source: MODEL}}, and {{force: true}} beside it if wanted")
        source, force = given["source"], given.get("force", False)
        if not isinstance(force, bool):
            raise RecipeError(f"{where} has force: {force!r}; write true or false")
        if isinstance(source, str):
            return cls(force=force) if source == "zero" else cls(model=source, force=force)
        kind = source.get("kind") if isinstance(source, Mapping) else None
        if kind == "zero" and set(source) == {"kind"}:
            return cls(force=force)
        named = set(source) - {"kind", "model"} if kind == "model_token" else set()
        if len(named) == 1 and named <= {"token", "token_id"} and isinstance(source.get("model"), str):
            return cls(model=source["model"], token=source.get("token"), token_id=source.get("token_id"), force=force)
        raise RecipeError(
            f"{where} has source: {source!r}; write a model's name, "
            "{kind: model_token, model: NAME, token: TOKEN} (or token_id: NUMBER), or zero"
        )

    def index(self, token: str, models: Iterable[str]) -> int:
        """The number of `self.model` among the models."""
        order = list(models)
        if self.model not in order:
            raise RecipeError(f"the override of token {token!r}: {unknown('model', str(self.model), order)}")
        return order.index(self.model)

    def row(self, token: str, vocabularies: Mapping[str, Vocabulary | None], rows: Mapping[str, int]) -> int:
        """The row of `self.model` that this override means."""
        model = str(self.model)
        if self.token_id is not None:
            number: int | None = self.token_id
            what = f"row {number!r}"
        else:
            vocabulary = vocabularies.get(model)
            wanted = token if self.token is None else self.token
            number, what = (None if vocabulary is None else vocabulary.ids.get(wanted)), f"token {wanted!r}"
        if type(number) is not int or not 0 <= number < rows[model]:
            raise RecipeError(
                f"the override of token {token!r} takes {what} of {model!r}, which {model!r} does not have; "
                f"it has {rows[model]:,} rows"
            )
        return number
