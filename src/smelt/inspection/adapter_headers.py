"""An adapter as its header and config have it: a PEFT folder, a folder of diffusers, a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smelt.errors import SmeltError
from smelt.files.reading import read_json_table
from smelt.formats.lora.adapter_file import adapter_weights, read_alphas, tensor_infos
from smelt.formats.lora.description import describe_adapter
from smelt.formats.open import is_adapter
from smelt.formats.source import TensorInfo
from smelt.inspection.model_facts import AdapterFacts, TensorFacts
from smelt.inspection.stored_model import StoredModel
from smelt.models.references import adapter_base

__all__ = ["read_adapter"]


def read_adapter(
    path: Path, base: str | None, relative_to: Path | None, open_base: Callable[[str], StoredModel]
) -> StoredModel:
    """`base` is the reference that was given, if any; `open_base` reads the headers of what it or the config names."""
    infos, peft = tensor_infos(path), path.is_dir() and is_adapter(path)
    settings = read_json_table(path / "adapter_config.json") if peft else {}
    notes: tuple[str, ...] = ()
    under = None
    try:
        base = base or (adapter_base(path, relative_to) if peft else None)
        under = None if base is None or base.startswith("hf:") else open_base(base)
    except SmeltError as error:
        notes = (f"its base cannot be opened ({error})",)
    facts = _peft_facts(settings, infos, base) if peft else _file_facts(path, infos, base)
    return StoredModel(
        f"{facts.kind} adapter",
        tuple(TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in infos.items()),
        (adapter_weights(path),),
        path=path,
        folder=path if path.is_dir() else None,
        config=under.config if under is not None else {},
        adapter=facts,
        notes=notes,
    )


def _file_facts(path: Path, infos: Mapping[str, TensorInfo], base: str | None) -> AdapterFacts:
    found, alphas = describe_adapter(infos), read_alphas(path)
    return AdapterFacts(
        ", ".join(found.kinds),
        found.ranks,
        alphas[0] if len(alphas) == 1 else None,
        found.targets,
        found.modules,
        (),
        base,
        found.naming,
        found.family,
        alphas,
    )


def _kind(settings: Mapping[str, Any]) -> str:
    kind = str(settings.get("peft_type", "unknown"))
    if kind.upper() != "LORA":
        return {"LOHA": "LoHa", "LOKR": "LoKr"}.get(kind, kind)
    return "DoRA" if settings.get("use_dora") else "rsLoRA" if settings.get("use_rslora") else "LoRA"


def _peft_facts(settings: Mapping[str, Any], infos: Mapping[str, TensorInfo], base: str | None) -> AdapterFacts:
    """Ranks and modules are those of the stored matrices: a pattern may give some modules another rank."""
    first = {key.rpartition(".lora_")[0]: info.shape for key, info in infos.items() if ".lora_A." in key}
    first |= {
        key.rpartition(".lora_")[0]: info.shape[::-1] for key, info in infos.items() if ".lora_embedding_A" in key
    }
    found = describe_adapter(infos)
    saved, alpha = settings.get("modules_to_save"), settings.get("lora_alpha", settings.get("alpha"))
    return AdapterFacts(
        _kind(settings),
        tuple(sorted({shape[0] for shape in first.values() if shape})) if first else found.ranks,
        float(alpha) if isinstance(alpha, int | float) else None,
        tuple(sorted({module.rpartition(".")[2] for module in first})) if first else found.targets,
        len(first) or found.modules,
        tuple(map(str, saved)) if isinstance(saved, list) else (),
        base,
        "PEFT",
        found.family,
        (float(alpha),) if isinstance(alpha, int | float) else (),
    )
