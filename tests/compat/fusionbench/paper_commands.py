"""Every command line of a paper in Markdown, with the shell's own meaning: `python paper_commands.py PAPER.md > OUT`.

The bash blocks run in bash with the program replaced by a function that prints its words, so loops, comments and
continued lines are what a shell makes of them. What follows `# results` in a block is output, not a command.
"""

import re
import subprocess
import sys
from pathlib import Path

_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PRINT = "fusion_bench() { printf '%q ' fusion_bench \"$@\"; echo; }\n"


def commands(markdown: str) -> list[str]:
    blocks = [block.split("\n# results", 1)[0] for block in _BLOCK.findall(markdown)]
    script = _PRINT + "\n".join(blocks) + "\n"
    ran = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    return [line.strip() for line in ran.stdout.splitlines()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(commands(Path(sys.argv[1]).read_text(encoding="utf-8"))) + "\n")
