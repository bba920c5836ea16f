"""What encoder-decoders say of continuations, and what they write: the encoder has the context, the decoder the rest.

As in the harness's own class for such models: context and continuation are cut into tokens apart, the context with the
tokenizer's special tokens. A context is encoded once for all its continuations. Filling is to the right and masked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError
from smelt.tasks.language.forward import scores_at
from smelt.tasks.language.likelihoods import BatchBudget, Tokens, judged
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["encodes", "likelihoods_decoded", "written"]


def encodes(module: Any) -> bool:
    """Whether a model has an encoder for what comes before its texts."""
    return bool(getattr(getattr(module, "config", None), "is_encoder_decoder", False))


def likelihoods_decoded(
    module: Any, requests: Sequence[tuple[Tokens, Tokens]], budget: BatchBudget, *, tell: Callable[[int], None]
) -> list[tuple[float, bool]]:
    """For every (context, continuation) the log-likelihood, and whether greedy decoding would give it."""
    import torch

    answers: list[tuple[float, bool]] = [(0.0, True)] * len(requests)
    start, vocabulary = _start(module), module.get_input_embeddings().weight.shape[0]
    for batch in _batches(requests, budget, vocabulary):
        contexts = list(dict.fromkeys(requests[number][0] for number in batch))
        states, mask = _encoded(module, contexts)
        row_of = {context: row for row, context in enumerate(contexts)}
        order = torch.tensor([row_of[requests[number][0]] for number in batch], device=states.device)
        continuations = [requests[number][1] for number in batch]
        inputs = _filled([[start, *tokens[:-1]] for tokens in continuations], states.device)[0]
        places = [(row, column) for row, tokens in enumerate(continuations) for column in range(len(tokens))]
        scores = scores_at(
            module,
            [row for row, _ in places],
            [column for _, column in places],
            decoder_input_ids=inputs,
            encoder_outputs=(states[order],),
            attention_mask=mask[order],
        )
        ends = list(itertools.accumulate(map(len, continuations)))
        texts = [(range(end - len(one), end), one) for end, one in zip(ends, continuations, strict=True)]
        for number, told in zip(batch, judged(scores, texts), strict=True):
            answers[number] = told
        tell(len(batch))
    return answers


def written(
    module: Any,
    contexts: Sequence[Sequence[int]],
    longest: int,
    ends: frozenset[int],
    stopped: Callable[[list[int]], bool] | None = None,
) -> list[list[int]]:
    """The likeliest next token again and again, after each context; without the token that ended it."""
    import torch

    states, mask = _encoded(module, contexts)
    forced = getattr(getattr(module, "generation_config", None), "forced_bos_token_id", None)
    tokens = torch.full((len(contexts), 1), _start(module), device=states.device)
    texts: list[list[int]] = [[] for _ in contexts]
    live, cache = set(range(len(contexts))), None
    with torch.inference_mode():
        for step in range(longest):
            out = module(
                encoder_outputs=(states,),
                attention_mask=mask,
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            cache, (score, chosen) = out.past_key_values, out.logits[:, -1].max(dim=-1)
            if not bool(score.isfinite().all()):
                raise NumericalError("scores with NaN or infinity")
            if step == 0 and isinstance(forced, int):
                chosen = torch.full_like(chosen, forced)
            for row, token in enumerate(chosen.tolist()):
                if row in live and token in ends:
                    live.discard(row)
                elif row in live:
                    texts[row].append(token)
                    if stopped is not None and stopped(texts[row]):
                        live.discard(row)
            if not live:
                break
            tokens = chosen[:, None]
    return texts


def _start(module: Any) -> int:
    """The token that every text of the decoder begins with."""
    config = module.config
    told = getattr(config, "decoder_start_token_id", None)
    told = told if told is not None else getattr(config, "bos_token_id", None)
    if not isinstance(told, int):
        raise TaskError(f"{type(module).__name__}: its config.json has no decoder_start_token_id, so it cannot write")
    return told


def _encoded(module: Any, contexts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """What the encoder makes of each context [n, t, width], and which places are not filling [n, t]."""
    import torch

    ids, mask = _filled(contexts, module.device)
    with torch.inference_mode():
        states: Tensor = module.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    return states, mask


def _filled(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    import torch

    width = max(map(len, rows))
    ids, mask = torch.zeros(2, len(rows), width, dtype=torch.long).unbind()
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(list(tokens), dtype=torch.long)
        mask[row, : len(tokens)] = 1
    return ids.to(device), mask.to(device)


def _batches(requests: Sequence[tuple[Tokens, Tokens]], budget: BatchBudget, vocabulary: int) -> Iterator[list[int]]:
    """Numbers of requests that go together: longest first, those of one context beside each other."""
    most = budget.score_bytes // (4 * vocabulary)
    asked = [number for number, (_, continuation) in enumerate(requests) if continuation]
    asked.sort(key=lambda number: (-len(requests[number][0]), requests[number][0], -len(requests[number][1])))
    batch: list[int] = []
    for number in asked:
        together = [*batch, number]
        wide = len(together) * max(len(requests[one][0]) + len(requests[one][1]) for one in together)
        places = sum(len(requests[one][1]) for one in together)
        if batch and (wide > budget.tokens or places > most or len(batch) >= budget.rows):
            yield batch
            together = [number]
        batch = together
    if batch:
        yield batch
