"""The orders in which models can be listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt.errors import unknown
from smelt.hub.service.problems import Refused

if TYPE_CHECKING:
    from smelt.hub.models.cards import ModelCard
    from smelt.hub.service.backend import HubBackend

__all__ = ["SORTS", "sorted_models"]

SORTS = {"name": "Name", "strength": "Strength", "size": "Size", "added": "Newest"}


def sorted_models(backend: HubBackend, cards: Sequence[ModelCard], sort: str) -> list[ModelCard]:
    """By name; the strongest, the largest or the newest first. What has no label yet comes last by strength."""
    if sort not in SORTS:
        raise Refused(422, unknown("order of models", sort, SORTS))
    by_name = sorted(cards, key=lambda card: card.name)
    if sort == "size":
        return sorted(by_name, key=lambda card: -card.parameters)
    if sort == "added":
        return sorted(by_name, key=lambda card: card.added, reverse=True)
    if sort == "strength":
        return sorted(by_name, key=lambda card: -_overall(backend, card))
    return by_name


def _overall(backend: HubBackend, card: ModelCard) -> float:
    strengths = backend.strengths(card)
    return -1.0 if strengths is None else strengths.overall
