"""What a server tells of itself and of the model it holds: its software, version, and the model as it is listed.

Every server has a page of its own for this. What one does not have is left out; nothing is made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.errors import RecipeError, did_you_mean, some
from smelt.system.endpoint import Endpoint, EndpointError

__all__ = ["listed_models", "told_of"]

_OF_MODEL = ("owned_by", "root", "max_model_len", "quantization")
"""Words of an entry of /v1/models that say something of the model; vLLM names the folder as `root`."""
_OF_GGUF = ("n_params", "size", "n_ctx_train", "n_vocab")
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


def check_name(endpoint: Endpoint, names: list[str]) -> None:
    """Refuse a model that the server does not list."""
    if endpoint.model not in names and f"{endpoint.model}:latest" not in names:
        listed = ", ".join(some(names)) or "none"
        raise RecipeError(
            f"{endpoint.url} serves no model {endpoint.model!r}{did_you_mean(endpoint.model, names)}; it serves: {listed}"
        )


def told_of(endpoint: Endpoint, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The server's software and version, and what its list says of the model."""
    meta = entry.get("meta")
    found = {word: entry[word] for word in _OF_MODEL if isinstance(entry.get(word), str | int)}
    if isinstance(meta, Mapping):
        found |= {word: meta[word] for word in _OF_GGUF if isinstance(meta.get(word), int)}
    return {**_software(endpoint, entry), **found}


def _software(endpoint: Endpoint, entry: Mapping[str, Any]) -> dict[str, Any]:
    """By the pages that only one of them has; a server that has none says nothing."""
    owner = entry.get("owned_by")
    if owner == "llamacpp" or owner is None:
        props = _page(endpoint, "/props")
        if "build_info" in props or "default_generation_settings" in props:
            settings = props.get("default_generation_settings")
            room = settings.get("n_ctx") if isinstance(settings, Mapping) else None
            file = props.get("model_path")
            return {
                "software": "llama.cpp",
                **({"version": str(props["build_info"])} if "build_info" in props else {}),
                **({"file": str(file).replace("\\", "/").rpartition("/")[2]} if file else {}),
                **({"max_model_len": room} if isinstance(room, int) and room > 0 else {}),
            }
    if owner == "vllm":
        return {"software": "vLLM", **_version(_page(endpoint, "/version"))}
    version = _version(_page(endpoint, "/api/version"))
    return {"software": "Ollama", **version} if version else {}


def _version(page: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": str(page["version"])} if "version" in page else {}


def _page(endpoint: Endpoint, path: str) -> Mapping[str, Any]:
    try:
        found = endpoint.get(path, tries=1)
    except EndpointError:
        return {}
    return found if isinstance(found, dict) else {}
