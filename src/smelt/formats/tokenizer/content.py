"""The content of a tokenizer.json, carried over to another token map.

In: the reference model's tokenizer.json, the token -> id map of the output, and the other models' files, which
know how their own tokens are meant. Out: a new tokenizer.json. Dropped tokens leave no trace (merges,
templates, padding); new ones come with their flags, scores and merges, the merges behind all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from smelt.caller import word
from smelt.errors import CorruptFile, RecipeError, shortened
from smelt.formats.tokenizer.vocabulary import vocabulary_of

__all__ = ["carry_over"]

Spec: TypeAlias = Mapping[str, Any]

_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}


def carry_over(spec: Spec, tokens: Mapping[str, int], others: Mapping[str, Spec]) -> dict[str, Any]:
    """The tokenizer of `spec` with exactly `tokens`; `others` are searched in their order for what is new."""
    model, old = dict(spec["model"]), vocabulary_of(spec)
    scores = _scores(model)
    added = {e["content"]: e for e in spec.get("added_tokens") or () if e["content"] in tokens}
    merges = [pair for pair in _pairs(model) if _joined(model, pair) in tokens]
    new = {token for token in tokens if token not in old}
    for name, other in others.items():
        flags = {e["content"]: e for e in other.get("added_tokens") or ()}
        added |= {token: flags[token] for token in new & flags.keys()}
        new -= flags.keys()
        listed = _scores(other["model"])
        mine = new & listed.keys()
        if mine and other["model"]["type"] != model["type"]:
            raise RecipeError(
                f"{name} has a {other['model']['type']} tokenizer and the output a {model['type']} one, so tokens "
                f"such as {min(mine)!r} cannot move from one to the other; write {word('vocab', 'base')} or a "
                "model's name"
            )
        scores |= {token: listed[token] for token in mine}
        merges += [pair for pair in _pairs(other["model"]) if _joined(other["model"], pair) in mine]
        new -= mine
    added |= {token: {**_PLAIN, "content": token} for token in new}
    listed_tokens = [token for token in scores if token in tokens]
    placed = [{**entry, "id": tokens[token]} for token, entry in added.items()]
    placed.sort(key=lambda entry: int(entry["id"]))
    _place(model, listed_tokens, scores, tokens)
    result = {**spec, "added_tokens": placed, "model": model}
    if vocabulary_of(result) != dict(tokens):
        # The library numbers added tokens itself unless the model's list holds them too.
        _place(model, [*listed_tokens, *(t for t in added if t not in scores)], scores, tokens)
    if model.get("merges") is not None:
        text = any(isinstance(pair, str) for pair in model["merges"][:1])
        whole = (pair for pair in merges if pair[0] in model["vocab"] and pair[1] in model["vocab"])
        model["merges"] = [" ".join(pair) if text else list(pair) for pair in whole]
    _keep_unknown(model, spec["model"], tokens)
    result["post_processor"] = _processor(spec.get("post_processor"), tokens)
    if padding := spec.get("padding"):
        at = tokens.get(padding["pad_token"])
        result["padding"] = None if at is None else {**padding, "pad_id": at}
    return result


def _scores(model: Spec) -> dict[str, float]:
    """The model's list of tokens, with the scores that only Unigram has."""
    listed = model["vocab"]
    return dict.fromkeys(listed, 0.0) if isinstance(listed, dict) else dict(listed)


def _place(
    model: dict[str, Any], listed: Sequence[str], scores: Mapping[str, float], tokens: Mapping[str, int]
) -> None:
    """Write the model's list; a token without a score gets the lowest one, as text never becomes it by chance."""
    order = sorted(listed, key=tokens.__getitem__)
    if isinstance(model["vocab"], dict):
        model["vocab"] = {token: tokens[token] for token in order}
    else:
        lowest = min(scores.values(), default=0.0)
        model["vocab"] = [[token, scores.get(token, lowest)] for token in order]


def _pairs(model: Spec) -> list[tuple[str, str]]:
    """Merges, which older files write as one string and newer ones as a pair."""
    split = [pair.split(" ") if isinstance(pair, str) else pair for pair in model.get("merges") or ()]
    strange = next((pair for pair in split if len(pair) != 2), None)
    if strange is not None:
        raise CorruptFile(f"tokenizer.json: the merge {shortened(' '.join(strange))!r} is no pair of tokens")
    return [(left, right) for left, right in split]


def _joined(model: Spec, pair: tuple[str, str]) -> str:
    return pair[0] + pair[1].removeprefix(model.get("continuing_subword_prefix") or "")


def _keep_unknown(model: dict[str, Any], before: Spec, tokens: Mapping[str, int]) -> None:
    """Point the model at its unknown token's new place; only BPE can do without one."""
    if model["type"] == "Unigram":
        token = None if before.get("unk_id") is None else before["vocab"][before["unk_id"]][0]
        model["unk_id"] = tokens.get(token) if token is not None else None
    else:
        token = before.get("unk_token")
    if token is not None and token not in tokens:
        if model["type"] != "BPE":
            raise RecipeError(
                f"the token for unknown text, {token!r}, is not in all models, but a {model['type']} tokenizer "
                f"needs it; write {word('vocab', 'union')}, {word('vocab', 'base')} or a model's name"
            )
        model["unk_token"] = None


def _processor(processor: Any, tokens: Mapping[str, int]) -> Any:
    """What adds special tokens around a text, with the new ids; without the tokens that are gone."""
    kind = processor and processor["type"]
    if kind == "Sequence":
        steps = [_processor(step, tokens) for step in processor["processors"]]
        return {**processor, "processors": [step for step in steps if step is not None]}
    if kind == "TemplateProcessing":
        known = processor["special_tokens"].items()
        kept = {
            name: {**entry, "ids": [tokens[token] for token in entry["tokens"]]}
            for name, entry in known
            if all(token in tokens for token in entry["tokens"])
        }
        templates = {
            side: [piece for piece in processor[side] if (piece.get("SpecialToken") or {}).get("id") in {*kept, None}]
            for side in ("single", "pair")
        }
        return {**processor, **templates, "special_tokens": kept}
    if kind in ("BertProcessing", "RobertaProcessing"):
        if processor["sep"][0] not in tokens or processor["cls"][0] not in tokens:
            return None
        return {**processor, **{side: [processor[side][0], tokens[processor[side][0]]] for side in ("sep", "cls")}}
    return processor
