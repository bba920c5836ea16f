"""`adapter_config.json` of a PEFT adapter: read, judged, and asked for the rank and the scaling of a module.

In: the adapter's folder. Out: an `AdapterConfig`, whose `faults` say why an adapter is not simply added to a base.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, read_json_table
from smelt.formats.lora.safe_regex import LinearPattern, PatternError

__all__ = ["AdapterConfig"]

_Number = TypeVar("_Number", int, float)

_NOT_ADDABLE = {
    "use_qalora": "QA-LoRA pools its inputs",
    "use_bdlora": "block-diagonal LoRA stores its matrices in blocks",
    "alora_invocation_tokens": "an activated LoRA works on some tokens only",
    "arrow_config": "Arrow routes every token to other adapters",
    "kasa_config": "KaSA changes the base too",
    "monteclora_config": "MonteCLoRA samples its matrices",
    "layer_replication": "it repeats layers that the base has once",
    "megatron_config": "Megatron layers are stored in parallel pieces",
}
"""Settings that make a LoRA something else than `base + scaling * B @ A`, and why."""
_KINDS = ("LORA", "LOHA", "LOKR", "IA3")
_MOVES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Starting points that change the base's weights before training, so that the adapter fits another base."""


class AdapterConfig:
    def __init__(self, settings: Mapping[str, Any]):
        self.kind = str(settings.get("peft_type"))
        self.use_dora = bool(settings.get("use_dora"))
        parameters = settings.get("target_parameters")
        self.target_parameters = tuple(map(str, parameters)) if isinstance(parameters, list | tuple) else ()
        self._token_rows = settings.get("trainable_token_indices")
        self.transposed = bool(settings.get("fan_in_fan_out"))
        self.keeps_ties = bool(settings.get("ensure_weight_tying"))
        saved = settings.get("modules_to_save")
        self.saved_modules = tuple(map(str, saved)) if isinstance(saved, list | tuple) else ()
        self._rslora = bool(settings.get("use_rslora"))
        alpha = "lora_alpha" if self.kind == "LORA" else "alpha"
        self._rank, self._alpha = settings.get("r", 8), settings.get(alpha, 8)
        self._ranks: Mapping[str, int] = _table(settings.get("rank_pattern"))
        self._alphas: Mapping[str, float] = _table(settings.get("alpha_pattern"))
        self._rules: dict[str, Callable[[str], bool]] = {}
        self.faults = self._judge(settings)

    @classmethod
    def load(cls, folder: Path) -> AdapterConfig:
        path = folder / "adapter_config.json"
        if not is_there(path):
            raise CorruptFile(f"{folder}: no adapter_config.json here; this is not a PEFT adapter's folder")
        return cls(read_json_table(path))

    def rank_and_scaling(self, module: str) -> tuple[int, float]:
        """For a module by its name in the adapter without `base_model.model.`; only where there are no faults."""
        rank = self._by_pattern(self._ranks, module, self._rank)
        alpha = self._by_pattern(self._alphas, module, self._alpha)
        return rank, alpha / (math.sqrt(rank) if self._rslora else rank)

    def token_rows(self, module: str) -> tuple[int, ...] | None:
        """The rows of an embedding that were trained; None where the config does not say them."""
        said: Any = self._token_rows
        if isinstance(said, dict):
            said = next((rows for name, rows in said.items() if f".{module}".endswith(f".{name}")), None)
        whole = isinstance(said, list) and all(type(row) is int and row >= 0 for row in said)
        return tuple(said) if whole else None

    def saves(self, name: str) -> bool:
        """Whether the tensor belongs to a module that the adapter keeps whole, in a copy of its own."""
        return any(f".{module}." in f".{name}" for module in self.saved_modules)

    def _judge(self, settings: Mapping[str, Any]) -> list[str]:
        if (kind := settings.get("peft_type")) not in _KINDS:
            return [
                f"peft_type is {shortened(repr(kind))}; only LORA adapters (DoRA and rsLoRA among them), LOHA, LOKR "
                "and IA3 are merged"
            ]
        faults = [
            f"{name} is set: {why}; it cannot be added to a base"
            for name, why in _NOT_ADDABLE.items()
            if settings.get(name)
        ]
        start = str(settings.get("init_lora_weights", True)).lower()
        if start.startswith(_MOVES_BASE):
            faults.append(
                f"init_lora_weights is {start!r}, which changed the base before training; convert the adapter with "
                "PEFT's save_pretrained(..., path_initial_model_for_weight_conversion=...)"
            )
        saved = settings.get("modules_to_save")
        if saved and not self.saved_modules:
            faults.append(f"modules_to_save is {shortened(repr(saved))}; a list of names is expected")
        ranks = [("r", self._rank), *(("rank_pattern", rank) for rank in self._ranks.values())]
        faults += [
            f"{where} gives the rank {shortened(repr(v))}; a whole number from 1 on is needed"
            for where, v in ranks
            if not _is_rank(v)
        ]
        alphas = [
            ("alpha" if self.kind in ("LOHA", "LOKR") else "lora_alpha", self._alpha),
            *(("alpha_pattern", alpha) for alpha in self._alphas.values()),
        ]
        faults += [
            f"{where} gives {shortened(repr(v))}; a number is needed" for where, v in alphas if not _is_number(v)
        ]
        for what, patterns in (("rank_pattern", self._ranks), ("alpha_pattern", self._alphas)):
            if not patterns and settings.get(what):
                faults.append(f"{what} is {shortened(repr(settings[what]))}; a table of patterns is expected")
            for pattern in patterns:
                try:
                    self._rules[pattern] = _rule(pattern)
                except PatternError as error:
                    said = f"{shortened(pattern)!r}, which is no regular expression that is matched here"
                    faults.append(f"{what} holds {said} ({shortened(str(error))})")
        return faults

    def _by_pattern(self, patterns: Mapping[str, _Number], module: str, default: _Number) -> _Number:
        for pattern, value in patterns.items():
            try:
                if self._rules[pattern](module):
                    return value
            except PatternError as error:
                raise CorruptFile(f"adapter_config.json: the pattern {shortened(pattern)!r}: {error}") from None
        return default


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_rank(value: object) -> bool:
    return type(value) is int and value > 0


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _rule(pattern: str) -> Callable[[str], bool]:
    """PEFT's rule: the first pattern that is the module's whole name, or its end after a dot.

    Names are the usual patterns, by the hundred; where nothing repeats or chooses, `re` is quick and cannot get lost.
    """
    whole = rf"(.*\.)?({pattern})$"
    if not set(pattern) & set("*+?{|("):
        try:
            matched = re.compile(whole).match
        except (re.error, RecursionError) as error:
            raise PatternError(str(error)) from None
        return lambda module: matched(module) is not None
    return LinearPattern(whole).matches
