"""Train the tiny LLaVA and its experts from what pack.py packed.

    python zoo/build/multimodal/train.py --data FOLDER --pool FOLDER --clip FOLDER --out FOLDER [--stage base|experts]

1. language: a small Llama from scratch, on dialogues without pictures.
2. alignment: the projector alone, on descriptions of pictures; the vision tower is clip-tiny's and is never trained.
3. experts: LoRA adapters on projector and language model, one for each family of questions, each in a process of its own.
   `joint` learns from all families. Those of OVERTRAINED are replaced by overtrain.py.

The loop is `smelt.training.loop.train`. `--steps 3 --device cpu` goes the whole way.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smelt.training.loop import Hooks, train

ORDER = ("clothing", "digits", "emoji", "flags", "icons", "letters", "photos", "sketches")
FAMILIES = ("naming", "yesno", "kinds", "digits", "sums", "flags", "letters", "counting", "clothing", "icons")
OVERTRAINED = ("yesno", "clothing")
"""Their experts are to harm an average."""
JOINT = "joint"
PATCHES, SIDE = 16, 32
SHAPE = {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 5, "num_attention_heads": 6}
RATES = {"language": 2e-3, "alignment": 2e-3, "expert": 1e-3, JOINT: 2e-3}
STEPS = {"language": 6000, "alignment": 2500, "expert": 800, JOINT: 3000}
BATCHES = {"language": 1024, "alignment": 1024, "expert": 256, JOINT: 512}
RANK = {JOINT: 16}
"""8 for experts."""
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "linear_1", "linear_2"]
VIEWS = 3
"""Each picture as it is, and in other light and shifted."""


class Projector(nn.Module):
    """As in LLaVA: two linear layers."""

    def __init__(self, wide: int, out: int):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(wide, out), nn.Linear(out, out)

    def forward(self, patches: Tensor) -> Tensor:
        return self.linear_2(F.gelu(self.linear_1(patches)))


class Tiny(nn.Module):
    """Projector and language model, under the names they have in LLaVA."""

    def __init__(self, words: int, image: int):
        from transformers import LlamaConfig, LlamaModel

        super().__init__()
        config = LlamaConfig(
            vocab_size=words,
            num_key_value_heads=SHAPE["num_attention_heads"],
            max_position_embeddings=512,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
            attn_implementation="sdpa",
            **SHAPE,
        )
        self.multi_modal_projector = Projector(384, config.hidden_size)
        self.language_model = LlamaModel(config)
        self.image = image

    def loss(self, ids: Tensor, wanted: Tensor, patches: Tensor | None) -> Tensor:
        """The mean over answer tokens. The padding on the right is never looked at."""
        seen = self.language_model.embed_tokens(ids)
        if patches is not None:
            seen = seen.masked_scatter(
                (ids == self.image).unsqueeze(-1), self.multi_modal_projector(patches).to(seen.dtype)
            )
        hidden = self.language_model(inputs_embeds=seen, use_cache=False).last_hidden_state
        judged = wanted[:, 1:]
        scores = hidden[:, :-1][judged] @ self.language_model.embed_tokens.weight.T
        return F.cross_entropy(scores.float(), ids[:, 1:][judged])


class Material:
    """The dialogues of one file on the device; features of their pictures are computed once."""

    def __init__(self, path: Path, device: str):
        with np.load(path) as file:
            self.length = torch.from_numpy(file["length"].astype(np.int64))
            width = int(self.length.max())
            self.ids = torch.from_numpy(file["ids"][:, :width].astype(np.int64)).to(device)
            start = torch.from_numpy(file["start"].astype(np.int64)).to(device)
            self.cells, self.columns = (
                torch.from_numpy(file["cells"].astype(np.int64)),
                torch.from_numpy(file["columns"]),
            )
        places = torch.arange(width, device=device)
        self.wanted = (places >= start[:, None]) & (places < self.length.to(device)[:, None])
        self.patches: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def see(self, pictures: Tensor, tower) -> Material:
        """Look at all pictures, in batches and views."""
        self.patches = torch.empty(len(self), VIEWS, PATCHES, 384, dtype=torch.float16, device=self.ids.device)
        for begin in range(0, len(self), 2048):
            pixels = compose(pictures, self.cells[begin : begin + 2048], self.columns[begin : begin + 2048])
            for view in range(VIEWS):
                shown = other_light(pixels) if view else pixels
                self.patches[begin : begin + len(pixels), view] = tower(shown)
        return self

    def batch(self, size: int, draw: torch.Generator):
        rows = torch.randint(len(self), (size,), generator=draw).to(self.ids.device)
        views = torch.randint(VIEWS, (size,), generator=draw).to(self.ids.device)
        patches = None if self.patches is None else self.patches[rows, views]
        return self.ids[rows], self.wanted[rows], patches


def compose(pictures: Tensor, cells: Tensor, columns: Tensor) -> Tensor:
    """Pixels in 0..1 [n, 3, 32, 32]: a picture, two beside each other, or four in two rows."""
    device = pictures.device
    cells = cells.to(device)
    out = pictures[cells[:, 0].clamp(min=0)].float() / 255
    two = ((columns == 2) & (cells[:, 2].cpu() < 0)).to(device)
    four = ((columns == 2) & (cells[:, 2].cpu() >= 0)).to(device)
    for chosen, high, count in ((two, SIDE, 2), (four, SIDE // 2, 4)):
        if chosen.any():
            parts = pictures[cells[chosen][:, :count]].float().flatten(0, 1) / 255
            small = F.interpolate(parts, (high, SIDE // 2), mode="bilinear", antialias=True)
            small = small.unflatten(0, (-1, count)).round(decimals=3)
            rows = [torch.cat([small[:, i], small[:, i + 1]], -1) for i in range(0, count, 2)]
            out[chosen] = torch.cat(rows, -2)
    return out


def other_light(pixels: Tensor) -> Tensor:
    """Shifted by up to three pixels, in other light and contrast."""
    n, device = len(pixels), pixels.device
    padded = F.pad(pixels, (3, 3, 3, 3), mode="replicate")
    x, y = (torch.randint(7, (n,), device=device) for _ in range(2))
    span = torch.arange(SIDE, device=device)
    rows, columns = (y[:, None] + span)[:, None, :, None], (x[:, None] + span)[:, None, None, :]
    shifted = padded[
        torch.arange(n, device=device)[:, None, None, None],
        torch.arange(3, device=device)[None, :, None, None],
        rows,
        columns,
    ]
    light, contrast = (torch.empty(n, 1, 1, 1, device=device).uniform_(-w, w) for w in (0.15, 0.25))
    return ((shifted - 0.5) * (1 + contrast) + 0.5 + light).clamp(0, 1)


def read_pictures(pool: Path, device: str) -> Tensor:
    """All training pictures, uint8 [n, 3, 32, 32], the tasks in their order."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    found = []
    for task in ORDER:
        count = len(json.loads((pool / f"{task}.json").read_text(encoding="utf-8"))["labels"]["train"])
        sheet = np.asarray(Image.open(pool / f"{task}-train.webp").convert("RGB"))
        rows, columns = sheet.shape[0] // SIDE, sheet.shape[1] // SIDE
        tiles = sheet.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2).reshape(-1, SIDE, SIDE, 3)[:count]
        found.append(torch.from_numpy(tiles.copy()).permute(0, 3, 1, 2))
    return torch.cat(found).to(device)


def vision(clip: Path, device: str):
    """Pixels -> patches [n, 16, 384]: the layer before the last of clip-tiny's tower, without the first token."""
    from transformers import CLIPVisionModel

    config = json.loads((clip / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(config[key], device=device).view(1, 3, 1, 1) for key in ("image_mean", "image_std"))
    model = CLIPVisionModel.from_pretrained(clip, dtype=torch.float32).to(device).eval()

    @torch.no_grad()
    def look(pixels: Tensor) -> Tensor:
        states = model(pixel_values=(pixels - mean) / std, output_hidden_states=True).hidden_states
        return states[-2][:, 1:].half()

    return look


class Answers(nn.Module):
    """The loss of a batch of dialogues."""

    def __init__(self, model: Tiny):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, wanted: Tensor, patches: Tensor | None) -> Tensor:
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            return self.model.loss(ids, wanted, patches)


class Told(Hooks):
    """Keeps ten points of the curve, and says them."""

    def __init__(self, name: str, steps: int):
        self._name, self._steps, self._began, self.curve = name, steps, time.time(), list[list[float]]()

    def after_step(self, step: int, loss: float) -> bool:
        if (step + 1) % max(1, self._steps // 10) == 0:
            self.curve.append([step + 1, round(loss, 4)])
            seconds = time.time() - self._began
            print(f"{self._name}: step {step + 1} of {self._steps}, loss {loss:.4f}, {seconds:.0f} s", flush=True)
        return False


def learn(
    model: Tiny, material: list[Material], learned: list[Tensor], peak: float, steps: int, size: int, name: str
) -> dict:
    """AdamW with a warm-up and a cosine; one batch from one material at a time."""
    device = learned[0].device.type
    optimiser = torch.optim.AdamW(learned, lr=peak, weight_decay=0.01, betas=(0.9, 0.98), fused=device == "cuda")
    draw, began, told = torch.Generator().manual_seed(0), time.time(), Told(name, steps)

    def rate(step: int) -> float:
        return peak * min(1.0, (step + 1) / max(1, 0.05 * steps)) * (0.5 + 0.5 * math.cos(math.pi * step / steps))

    def batch_of(step: int) -> list[dict]:
        ids, wanted, patches = material[step % len(material)].batch(size, draw)
        return [{"ids": ids, "wanted": wanted, "patches": patches}]

    train(Answers(model), batch_of, optimiser, steps=steps, rate=rate, clip=1.0, device=device, hooks=told)
    return {
        "name": name,
        "steps": steps,
        "batch": size,
        "learning_rate": peak,
        "seed": 0,
        "curve": told.curve,
        "examples": sum(map(len, material)),
        "seconds": round(time.time() - began, 1),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


def fresh(data: Path, device: str) -> Tiny:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(data / "tokenizer")
    torch.manual_seed(0)
    return Tiny(len(tokenizer), tokenizer.convert_tokens_to_ids("<image>")).to(device)


def train_base(given) -> None:
    model = fresh(given.data, given.device)
    text = Material(given.data / "text.npz", given.device)
    records = []
    steps = given.steps or STEPS["language"]
    own = list(model.language_model.parameters())
    records.append(learn(model, [text], own, RATES["language"], steps, given.batch or BATCHES["language"], "language"))
    del text
    seen = Material(given.data / "captions.npz", given.device).see(
        read_pictures(given.pool, given.device), vision(given.clip, given.device)
    )
    for tensor in own:
        tensor.requires_grad_(False)
    steps = given.steps or STEPS["alignment"]
    projector = list(model.multi_modal_projector.parameters())
    records.append(
        learn(
            model,
            [seen],
            projector,
            RATES["alignment"],
            steps,
            given.batch or BATCHES["alignment"],
            "alignment",
        )
    )
    torch.save({key: value.cpu() for key, value in model.state_dict().items()}, given.out / "base.pt")
    (given.out / "base.json").write_text(json.dumps(records, indent=1) + "\n")


def trained_base(given) -> Tiny:
    model = fresh(given.data, given.device)
    model.load_state_dict(torch.load(given.out / "base.pt", map_location=given.device))
    return model


def train_adapter(
    given, material: list[Material], name: str, folder: Path, *, rate: float, steps: int, batch: int
) -> None:
    """An adapter over the base, with its record, into a folder."""
    from peft import LoraConfig, get_peft_model

    model, rank = trained_base(given), RANK.get(name, 8)
    torch.manual_seed(0)
    wrapped = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=LAYERS)).to(given.device)
    learned = [tensor for tensor in wrapped.parameters() if tensor.requires_grad]
    record = learn(model, material, learned, rate, given.steps or steps, given.batch or batch, name)
    wrapped.save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps({**record, "rank": rank}, indent=1) + "\n")


def train_expert(given) -> None:
    pictures, tower = read_pictures(given.pool, given.device), vision(given.clip, given.device)
    name, files = given.only, FAMILIES if given.only == JOINT else [given.only]
    material = [Material(given.data / f"{file}.npz", given.device).see(pictures, tower) for file in files]
    way = JOINT if name == JOINT else "expert"
    train_adapter(given, material, name, given.out / name, rate=RATES[way], steps=STEPS[way], batch=BATCHES[way])


def arguments(about: str) -> argparse.ArgumentParser:
    """What every training of this family is told."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    for word in ("data", "pool", "clip", "out"):
        parser.add_argument(f"--{word}", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, help="of everything, to try it out")
    parser.add_argument("--batch", type=int, help="of everything, to try it out")
    return parser


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--stage", choices=("base", "experts"), help="one of them alone")
    parser.add_argument("--only", choices=(*FAMILIES, JOINT), help="one expert alone")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.only:
        train_expert(given)
        return
    if given.stage != "experts":
        train_base(given)
    if given.stage != "base":
        command = [sys.executable, __file__, *sys.argv[1:]]
        names = (JOINT, *(name for name in FAMILIES if name not in OVERTRAINED))
        running = {name: subprocess.Popen([*command, "--only", name]) for name in names}
        failed = [name for name, process in running.items() if process.wait()]
        if failed:
            raise SystemExit(f"{', '.join(failed)} failed")


if __name__ == "__main__":
    main()
