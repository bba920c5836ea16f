"""Models of the Hugging Face hub, fetched into its cache. In: `org/name@revision`. Out: the folder they lie in.

Safetensors are fetched, and pickles only where there is nothing else and `allow_pickle` is written. What lies in the
cache is not fetched again, and is found without a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from smelt.caller import option
from smelt.errors import RecipeError, SmeltError
from smelt.files.remote.mounts import streams_hub
from smelt.formats.open import is_adapter, is_pickle
from smelt.formats.part_folders import MODULES
from smelt.formats.sentence_transformers.source import PICKLE, modules_without_weights
from smelt.models.references import reference_scheme
from smelt.models.verified_download import hub_fault, verified

__all__ = ["download", "fetch_files", "in_cache", "listed_files", "wanted_files"]

_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.spm", "*.py"]
_USUAL = re.compile(r"^pytorch_model(-\d{5}-of-\d{5})?\.bin$")
"""How the hub names the pickles of a model; beside them may lie the same weights for another library."""


@reference_scheme("hf")
def download(name: str, *, allow_pickle: bool = False) -> Path:
    """The folder of a model on the hub, with its weights; one that stands for it where it is streamed."""
    if streams_hub():
        from smelt.models.hub_stream import stream

        return stream(name)
    repo, _, revision = name.partition("@")
    folder = _snapshot(name, repo, revision or None, _FILES)
    parts = modules_without_weights(folder)
    complete = is_adapter(folder) or any(folder.glob("*.safetensors")) or _in_modules(folder)
    if complete and not parts:
        return folder
    commit = folder.name  # a branch may move between two requests
    names, here = listed_files(repo, commit), _pickles(path.name for path in folder.iterdir())
    pickles = [] if complete else _pickles(names) or here
    of_parts = [f"{part}/{PICKLE}" for part in parts]
    here += [name for name in of_parts if (folder / name).is_file()]
    pickles += [name for name in of_parts if name in names or name in here]
    if complete and not pickles:  # a module has no weights at all; whoever opens the model says so
        return folder
    if not pickles:
        raise RecipeError(f"hf:{name} holds no weights that are read here: no *.safetensors, and no *.bin either")
    if not allow_pickle:
        raise RecipeError(
            f"hf:{name} holds {'modules with ' if complete else ''}no safetensors, only pickles ({pickles[0]}), "
            "which can run code when opened. Write "
            f"{option('allow_pickle')} to have them fetched and read with weights_only, "
            "or give a revision with safetensors (hf:org/name@revision)"
        )
    return folder if set(pickles) <= set(here) else _snapshot(name, repo, commit, pickles)


def _in_modules(folder: Path) -> bool:
    """Whether the weights of a model with modules lie in their folders (0_Transformer), and not at the top."""
    return (folder / MODULES).is_file() and any(folder.glob("*/*.safetensors"))


def wanted_files(names: Iterable[str]) -> list[str]:
    """Of the files of a repository those that `download` fetches: pickles where there is nothing else."""
    names = list(names)
    found = [name for name in names if any(fnmatchcase(name, pattern) for pattern in _FILES)]
    if any(name.endswith(".safetensors") and "/" not in name for name in found):
        return found
    return [*found, *_pickles(names)]


def in_cache(name: str) -> bool:
    """Whether the weights of a model on the hub lie on this machine; the network is not asked."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repo, _, revision = name.partition("@")
    try:
        folder = Path(snapshot_download(repo, revision=revision or None, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return False
    return is_adapter(folder) or any(path.suffix == ".safetensors" or is_pickle(path.name) for path in folder.iterdir())


def fetch_files(name: str, patterns: Sequence[str]) -> Path:
    """The folder of a repository `org/name@revision` in the cache, with the files of these patterns that it has."""
    repo, _, revision = name.partition("@")
    return _snapshot(name, repo, revision or None, patterns)


def _snapshot(name: str, repo: str, revision: str | None, patterns: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        with verified("model", repo):
            return Path(snapshot_download(repo, revision=revision, allow_patterns=list(patterns)))
    except HFValidationError:
        raise RecipeError(f"hf:{name} is not a name that the Hugging Face Hub could have; write hf:org/name") from None
    except SmeltError:
        raise
    except Exception as error:  # whatever the client, its HTTP library and the disk raise
        reason = hub_fault(error)
        raise RecipeError(
            f"hf:{name} {reason}"
            if reason
            else f"hf:{name} is not in the local cache and could not be downloaded ({type(error).__name__}); "
            "check the name and the network, or give a folder"
        ) from None


def listed_files(repo: str, revision: str) -> list[str]:
    """The files of a model on the hub; none where it cannot be asked."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return list(HfApi().list_repo_files(repo, revision=revision))
    except (HfHubHTTPError, OSError, ValueError):
        return []


def _pickles(names: Iterable[str]) -> list[str]:
    """The weights among them that are pickles, once."""
    found = sorted(name for name in names if name.endswith(".bin") and "/" not in name and is_pickle(name))
    return [name for name in found if _USUAL.match(name)] or found
