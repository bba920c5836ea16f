"""What a server tells of itself and of the model it holds: its software, version, and the model as it is listed.

Every server has a page of its own for this. What one does not have is left out; nothing is made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.caller import Blank, option
from smelt.errors import RecipeError, did_you_mean, some
from smelt.system.endpoint import Endpoint, EndpointError, EndpointGone

__all__ = ["chosen_model", "listed_models", "told_of"]

_OF_MODEL = ("owned_by", "root", "max_model_len", "quantization")
"""Words of an entry of /v1/models that say something of the model; vLLM names the folder as `root`."""
_OF_GGUF = ("n_params", "size", "ftype")
"""What llama.cpp adds to an entry, under `meta`."""


def listed_models(endpoint: Endpoint) -> dict[str, Mapping[str, Any]]:
    """The entries of /v1/models by name."""
    answer = endpoint.get("models")
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise EndpointError(
            f"{endpoint.address('models')} did not answer with a list of models; is the url right? It ends with /v1"
        )
    return {str(one["id"]): one for one in entries if isinstance(one, dict) and "id" in one}


def chosen_model(url: str, name: str | None, names: Sequence[str]) -> str:
    """The model that was named, if the server lists it; the only one that it has, where none was named."""
    several = ", ".join(some(names, 8)) or "none"
    if name is None:
        if len(names) != 1:
            raise RecipeError(
                f"model: say which model of {url} is asked ({option('model', Blank('NAME'))}); it serves: {several}"
            )
        return names[0]
    if name in names:
        return name
    if f"{name}:latest" in names:  # Ollama's word for a name without a tag
        return f"{name}:latest"
    raise RecipeError(f"{url} serves no model {name!r}{did_you_mean(name, names)}; it serves: {several}")


def told_of(endpoint: Endpoint, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The server's software and version, and what its list says of the model."""
    meta = entry.get("meta")
    found = {word: entry[word] for word in _OF_MODEL if isinstance(entry.get(word), str | int)}
    if isinstance(meta, Mapping):
        found |= {word: meta[word] for word in _OF_GGUF if isinstance(meta.get(word), str | int)}
    return {**_software(endpoint, str(entry.get("owned_by", ""))), **found}


def _software(endpoint: Endpoint, owner: str) -> dict[str, Any]:
    """By the page that each of them has; a server that has none of these says nothing."""
    if owner == "vllm":
        return {"software": "vLLM", **_version(_page(endpoint, "/version"))}
    props = _page(endpoint, "/props")
    settings = props.get("default_generation_settings")
    if isinstance(settings, Mapping):
        slots = props.get("total_slots")
        room, file = settings.get("n_ctx"), str(props.get("model_path", "")).replace("\\", "/").rpartition("/")[2]
        return {
            "software": "llama.cpp",
            **({"version": str(props["build_info"])} if "build_info" in props else {}),
            **({"file": file} if file else {}),
            **({"slots": slots} if isinstance(slots, int) and slots > 0 else {}),
            **({"max_model_len": room} if isinstance(room, int) and room > 0 else {}),
        }
    version = _version(_page(endpoint, "/api/version"))
    return {"software": "Ollama", **version} if version else {}


def _version(page: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": str(page["version"])} if "version" in page else {}


def _page(endpoint: Endpoint, path: str) -> Mapping[str, Any]:
    try:
        found = endpoint.get(path)
    except EndpointGone:
        raise
    except EndpointError:
        return {}
    return found if isinstance(found, dict) else {}
