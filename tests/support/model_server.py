"""A server of OpenAI's protocol that holds a small model of torch, and can do what one of the known servers can.

What each leaves out: llama.cpp as it was tried, the others as their protocols are understood here.


    vllm          echo with log-probabilities, prompts as tokens, /tokenize (`add_special_tokens`), no /apply-template
    llama.cpp     no echo (it is left out quietly), log-probabilities of written tokens with their numbers, `logit_bias`
                  that moves what is written but not what is told, /tokenize (`add_special`), /apply-template
    llama-cpp-python   echo with log-probabilities, text alone, no /tokenize at the root
    ollama        echo and `logit_bias` are left out quietly, text alone, no /tokenize
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import torch

from smelt.models.families.causal_lm.model import CausalLM
from smelt.tasks.language.chat import chat_text
from smelt.tasks.language.greedy import cut, end_tokens, generate

__all__ = ["Fault", "ModelServer", "Software", "serving_model"]

Software = Literal["vllm", "llama.cpp", "llama-cpp-python", "ollama"]
Fault = Callable[[str, int], "tuple[int, str, dict[str, str]] | None"]
"""Of a path and how many requests came before: a status, a body and headers instead of the answer. Status 0 cuts the
connection."""

_ECHO = ("vllm", "llama-cpp-python")
_TOKENS = ("vllm", "llama.cpp")


class _Refused(Exception):
    pass


@dataclass
class ModelServer:
    """Where it is, what it was asked, and what it may do."""

    model: CausalLM
    software: Software
    fault: Fault | None = None
    name: str = "pico"
    url: str = ""
    asked: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)
    """Path, content and Authorization header of every request."""
    most: int = 0
    """Requests that were under way at the same time."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _now: int = 0

    def answer(self, path: str, content: dict[str, Any]) -> Any:
        own = self.software
        pages: dict[str, Any] = {"/v1/models": {"object": "list", "data": [self._entry()]}}
        if own == "vllm":
            pages["/version"] = {"version": "0.11.0"}
        if own == "llama.cpp":
            settings = {"n_ctx": 64}
            pages["/props"] = {"default_generation_settings": settings, "total_slots": 2, "build_info": "b1-test"}
        if own == "ollama":
            pages["/api/version"] = {"version": "0.12.0"}
        if path in pages:
            return pages[path]
        if path == "/tokenize" and own in _TOKENS:
            word, special = ("prompt", "add_special_tokens") if own == "vllm" else ("content", "add_special")
            return {"tokens": self._tokens(content[word], content[special])}
        if path == "/apply-template" and own == "llama.cpp" and self.model.tokenizer.chat_template:
            return {"prompt": self._chat(content)}
        if path == "/v1/chat/completions":
            if not self.model.tokenizer.chat_template:
                raise _Refused("the model has no chat template")
            tokens, text = self._written(self._tokens(self._chat(content)), content)
            return self._with_usage({"message": {"role": "assistant", "content": text}}, tokens)
        if path == "/v1/completions":
            return self._completion(content)
        raise LookupError(path)

    def _entry(self) -> dict[str, Any]:
        owner = {"vllm": "vllm", "llama.cpp": "llamacpp", "ollama": "library"}.get(self.software, "me")
        return {"id": self.name, "owned_by": owner, **({"max_model_len": 64} if owner == "vllm" else {})}

    def _tokens(self, text: str, special: bool = True) -> list[int]:
        return list(self.model.tokenizer.encode(text, add_special_tokens=special))

    def _chat(self, content: dict[str, Any]) -> str:
        return chat_text(self.model.tokenizer, content["messages"], add_generation_prompt=True)

    def _completion(self, content: dict[str, Any]) -> dict[str, Any]:
        prompt = content["prompt"]
        if not isinstance(prompt, str) and self.software not in _TOKENS:
            raise _Refused("prompt must be a string")
        tokens = self._tokens(prompt) if isinstance(prompt, str) else prompt
        if content.get("echo") and self.software in _ECHO:
            return self._echoed(tokens, prompt if isinstance(prompt, str) else None)
        if self.software == "llama.cpp" and content.get("logprobs"):
            return self._told_next(tokens, content)
        _, text = self._written(tokens, content)
        return self._with_usage({"text": text}, tokens)

    def _written(self, tokens: list[int], content: dict[str, Any]) -> tuple[list[int], str]:
        own = self.model
        stops = content.get("stop") or []
        if len(stops) > 4:
            raise _Refused("at most four stops")
        ends = end_tokens(own.module, own.tokenizer)
        (found,) = generate(own.module, [tokens], content["max_tokens"], ends)
        return tokens, cut(str(own.tokenizer.decode(found, skip_special_tokens=True)), stops)

    def _logs(self, tokens: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return self.model.module(input_ids=torch.tensor([tokens])).logits[0].double().log_softmax(-1)

    def _echoed(self, tokens: list[int], text: str | None) -> dict[str, Any]:
        """With the places in the text where tokens begin; of a prompt in tokens the text is what they say."""
        logs, own = self._logs(tokens), self.model.tokenizer
        last = int(logs[-1].argmax())
        text = own.decode(tokens) if text is None else text
        begins = [begin for begin, _ in own(text, return_offsets_mapping=True)["offset_mapping"]] + [len(text)]
        values = [None, *(float(logs[place, token]) for place, token in enumerate([*tokens[1:], last]))]
        best = [None, *({own.decode([int(row.argmax())]): float(row.max())} for row in logs)]
        words = [own.decode([token]) for token in [*tokens, last]]
        joined = {"tokens": words, "token_logprobs": values, "top_logprobs": best, "text_offset": begins}
        return self._with_usage({"text": f"{text} {words[-1]}", "logprobs": joined}, tokens)

    def _told_next(self, tokens: list[int], content: dict[str, Any]) -> dict[str, Any]:
        logs = self._logs(tokens)[-1]
        pushed = logs.clone()
        for token, push in content.get("logit_bias", {}).items():
            pushed[int(token)] += push
        written = int(pushed.argmax())
        top = [{"id": int(one), "logprob": float(logs[one])} for one in logs.topk(content["logprobs"]).indices]
        told = {"id": written, "logprob": float(logs[written]), "top_logprobs": top}
        text = self.model.tokenizer.decode([written])
        return self._with_usage({"text": text, "logprobs": {"content": [told]}}, tokens)

    def _with_usage(self, choice: dict[str, Any], tokens: list[int]) -> dict[str, Any]:
        return {"choices": [{"index": 0, **choice}], "usage": {"prompt_tokens": len(tokens), "completion_tokens": 1}}

    def take(self, path: str, content: dict[str, Any], key: str | None) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers."""
        with self._lock:
            number = len(self.asked)
            self.asked.append((path, content, key))
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            wrong = self.fault(path, number) if self.fault is not None else None
            if wrong is not None:
                return wrong
            return 200, json.dumps(self.answer(path, content)), {"Content-Type": "application/json"}
        except _Refused as error:
            return 400, json.dumps({"error": {"message": str(error)}}), {"Content-Type": "application/json"}
        except LookupError:
            return 404, '{"error": "not found"}', {"Content-Type": "application/json"}
        finally:
            with self._lock:
                self._now -= 1


@contextmanager
def serving_model(
    model: CausalLM, software: Software, fault: Fault | None = None, **words: Any
) -> Iterator[ModelServer]:
    """A server on a free port of this machine, for as long as it is needed."""
    server = ModelServer(model, software, fault, **words)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, content: dict[str, Any]) -> None:
            torch.set_num_threads(1)  # counts for this thread; a team for every connection would fight for the cores
            status, said, headers = server.take(self.path, content, self.headers.get("Authorization"))
            if not status:
                self.close_connection = True
                return
            body = said.encode()
            self.send_response(status)
            for word, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(word, value)
            with contextlib.suppress(OSError):  # nobody waits for it any more
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
