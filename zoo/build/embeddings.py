"""What the hub's default embedder makes of the captions of the zoo's graph, so that nobody has to compute it.

    python zoo/build/embeddings.py          write graph/captions.safetensors, after graph.py
    python zoo/build/embeddings.py FILE     write it there

The file says which embedder it is of; where that one changes, this has to be run again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from distributions import part_folder
from smelt.hub.graph.graph import SemanticGraph
from smelt.hub.matching.embed import minilm
from smelt.hub.matching.known_vectors import write_vectors

GRAPH = part_folder("graph")


def main(target: Path) -> None:
    captions = [node.caption for node in SemanticGraph.load(GRAPH).nodes]
    embedder = minilm()
    write_vectors(target, embedder.identity, captions, embedder.embed(captions))
    print(f"{len(captions)} captions, {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GRAPH / "captions.safetensors")
