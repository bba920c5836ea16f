"""Data: whose linear layers are stored as [in, out], and which tensors are several layers in one.

A new architecture is one more line. What biases and widths prove (`Orientation` in layout.py) goes before these words:
they decide where shapes cannot, for square matrices and tensors without a bias.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["DBRX", "EXPERTS", "EXPERTS_TRANSPOSED", "GIVES_HIDDEN", "NAMED_TRANSPOSED", "ROUTERS", "TRANSPOSED"]

_CONV1D = r"(^|\.)(c_attn|q_attn|c_fc|c_proj)\.weight$"
"""transformers' `Conv1D`. gpt_bigcode (StarCoder) has layers of these names too, and they are ordinary ones."""

TRANSPOSED: Mapping[str, re.Pattern[str]] = {
    "gpt2": re.compile(_CONV1D),
    "openai-gpt": re.compile(_CONV1D),
    "imagegpt": re.compile(_CONV1D),
    "decision_transformer": re.compile(_CONV1D),
    "clvp": re.compile(r"\.mlp\.(c_fc|c_proj)\.weight$"),
    "clvp_decoder": re.compile(r"\.mlp\.(c_fc|c_proj)\.weight$"),
    "ernie4_5_moe_vl": re.compile(r"\.mlp\.gate\.weight(_1)?$"),
    "ernie4_5_vl_moe": re.compile(r"\.mlp\.gate\.weight(_1)?$"),
}
"""By the `model_type` of a config: the names of the layers that it stores as [in, out]."""

NAMED_TRANSPOSED = re.compile(r"(^|\.)(text_projection|visual\.proj|mm_input_projection_weight)$")
"""Bare parameters that inputs are multiplied with from the left: the projections of OpenAI's and open_clip's models,
and Gemma 3's."""

EXPERTS = re.compile(
    r"(^|\.)(\w*experts|\w*moe)\.|(^|\.)(input_linear|output_linear|ffn_(gate|up|down|gate_up)_exps)\.(weight|bias)$"
)
"""Names under which a tensor of three axes is one matrix per expert; not those with a number: `experts.0.w1.weight`."""

EXPERTS_TRANSPOSED: Mapping[str, bool] = {
    "gpt_oss": True,
    "openai_privacy_filter": True,
    "llama4": True,
    "llama4_text": True,
    "aria": True,
    "aria_text": True,
    "mixtral": False,
    "qwen2_moe": False,
    "qwen3_moe": False,
    "deepseek_v3": False,
    "granitemoe": False,
    "jetmoe": False,
}
"""By `model_type`: whether one expert is [in, out]. Qwen3-VL-MoE has had both: only its shapes tell."""

GIVES_HIDDEN = re.compile(r"(down|w2|fc2|output_linear|wo)\w*(\.weight)?$")
"""The layer of an expert that leads back to the model's width; all others start from it."""

ROUTERS = (
    "router.weight",
    "gate.weight",
    "router.layer.weight",
    "router.classifier.weight",
    "gate.wg.weight",
    "ffn_gate_inp.weight",
)
"""Names beside the experts of the layer that chooses among them: [experts, width]."""

DBRX = re.compile(r"^(?P<ffn>.*)\.experts\.mlp\.(?P<layer>w1|v1|w2)$")
"""Experts below one another in two axes, [experts * inner, width]: w1 and v1 as [out, in], w2 as [in, out]."""
