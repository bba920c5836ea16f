"""The API's operations as a page lists them, read from the OpenAPI schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Operation", "operations"]


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked."""

    method: str
    path: str
    summary: str
    description: str
    parameters: list[tuple[str, str, str]]
    """Name, where it stands, what it is."""
    example: str
    """A command that asks it."""


def operations(schema: Mapping[str, Any]) -> dict[str, list[Operation]]:
    """By tag, in the schema's order."""
    groups: dict[str, list[Operation]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body, fields = _body(schema, operation)
            parameters = [
                (one["name"], one["in"], one.get("description", _type(one["schema"])))
                for one in operation.get("parameters", [])
            ]
            parameters += [(name, "form" if body == "form" else "JSON", words) for name, words in fields]
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(
                Operation(
                    method.upper(),
                    path,
                    operation.get("summary", ""),
                    operation.get("description", ""),
                    parameters,
                    _example(path, body, "security" in operation, [name for name, _ in fields]),
                )
            )
    return groups


def _body(schema: Mapping[str, Any], operation: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    content = operation.get("requestBody", {}).get("content", {})
    for kind, media in content.items():
        shape = media["schema"]
        if "$ref" in shape:
            shape = schema["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
        fields = [(name, one.get("description", _type(one))) for name, one in shape["properties"].items()]
        return ("json" if kind == "application/json" else "form"), fields
    return "", []


def _type(shape: Mapping[str, Any]) -> str:
    kinds = [str(shape["type"])] if "type" in shape else [str(one.get("type", "")) for one in shape.get("anyOf", [])]
    default = f", {shape['default']!r} if left out" if shape.get("default") not in (None, "") else ""
    return " or ".join(kind for kind in kinds if kind not in ("", "null")) + default


def _example(path: str, body: str, token: bool, fields: list[str]) -> str:
    words = ["curl"]
    if token:
        words.append('-H "Authorization: Bearer $TOKEN"')
    if body == "json":
        words.append('--json \'{"classes": ["cat", "dog"], "domain": "sketch"}\'')
    elif "pictures" in fields:
        words.append("-F pictures=@cat.png -F classes=cat -F classes=dog")
    elif body:
        words.append("-F name=my-model -F files=@model.zip")
    return " ".join([*words, "{base}" + path.lstrip("/")])
