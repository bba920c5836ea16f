"""Documents of public training sets: which of them are learned from, and where their answers stand."""

from __future__ import annotations

from typing import Any

__all__ = ["harmless_responses", "last_message"]


def last_message(documents: Any) -> Any:
    """The assistant's words, the last of `messages`, as `answer`."""
    return documents.map(lambda doc: {"answer": doc["messages"][-1]["content"]})


def harmless_responses(documents: Any) -> Any:
    """Requests with a response that does no harm: many have none at all."""
    return documents.filter(lambda doc: bool(doc["response"]) and doc["response_harm_label"] == "unharmful")
