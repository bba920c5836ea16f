"""The model card of a merge: what a hub and a person read first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from smelt.recipe.schema import Recipe
from smelt.version import __version__

__all__ = ["model_card"]


def model_card(
    name: str, recipe: Recipe, stages: Sequence[str], parents: Mapping[str, str], notes: Sequence[str]
) -> bytes:
    """README.md in the hub's format: tags, parents, the recipe that makes the model again."""
    hub_names = [ref.removeprefix("hf:").split("@")[0] for ref in parents.values() if ref.startswith("hf:")]
    head: dict[str, object] = {"tags": ["merge", "smelt", *stages]}
    if hub_names:
        head["base_model"] = hub_names
        head["base_model_relation"] = "merge"
    rows = "\n".join(f"| {who} | `{ref}` |" for who, ref in parents.items())
    remarks = "".join(f"- {note}\n" for note in notes)
    text = f"""---
{yaml.safe_dump(head, sort_keys=False).strip()}
---
# {name}

Made by merging the models below with [Smelt](https://pypi.org/project/smelt/) {__version__}: {", ".join(stages)}.

| model | reference |
|---|---|
{rows}

## Recipe

```yaml
{yaml.safe_dump(recipe.dump(), sort_keys=False, allow_unicode=True).strip()}
```

Save it as `recipe.yaml` and run `smelt merge recipe.yaml -o OUT`. `smelt verify OUT` checks every file of this folder
against `manifest.json`, which also holds the hashes of the parents.
"""
    return (text + (f"\n## Notes\n\n{remarks}" if remarks else "")).encode()
