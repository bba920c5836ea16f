"""What the tests of the service share: a graph of three colours, pictures, and waiting for jobs."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
from PIL import Image

from pico_clip import COLOURS, SIDE
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.hub import Hub

PER_STYLE = 4


def shade(colour: str, seed: int = 0, side: int = SIDE) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-50, 50, (side, side, 3))
    return np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8)


def png(colour: str, side: int = SIDE) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(shade(colour, 99, side)).save(buffer, "PNG")
    return buffer.getvalue()


def colour_graph() -> SemanticGraph:
    nodes = [NewNode("colour.n.01", "colour", "what light looks like", draws=True)]
    for name in COLOURS:
        pictures = [
            (style, f"made up {name} {number}", shade(name, 10 * place + number))
            for place, style in enumerate(("photo", "sketch"))
            for number in range(PER_STYLE)
        ]
        nodes.append(NewNode(f"{name}.n.01", name, f"the colour {name}", parents=["colour.n.01"], pictures=pictures))
    return SemanticGraph.build("colours", nodes, notice="Made up for tests.")


def finished(hub: Hub, job: int, seconds: float = 240.0) -> Any:
    """The job once it is over."""
    end = time.monotonic() + seconds
    while (found := hub.job(job)).status in ("waiting", "running"):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found
