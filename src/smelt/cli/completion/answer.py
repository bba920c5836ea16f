"""The hidden command that the shells' scripts call: words on the command line in, one possible word on each line out.

    smelt __complete zsh merge --model zoo:c        the words after `smelt`, the one under the cursor last
    smelt __complete bash                           $COMP_LINE up to $COMP_POINT, as bash has it

A line is the word, a tab, and what it is. Whatever goes wrong, nothing is printed: a Tab is no place for an error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

__all__ = ["COMMAND", "answer", "split_line"]

COMMAND = "__complete"
_SPECIAL = re.compile(r"([\s\\'\"$`!*?\[\](){}<>|&;#~])")


def answer(arguments: Sequence[str]) -> None:
    """Print what fits. `arguments` are the name of the shell and the words."""
    from smelt.cli.completion.words import words_after

    shell, *typed = arguments
    begins, quote = 0, ""
    if shell == "bash":
        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="ignore")
        typed, quote = split_line(line)
        typed = typed[1:]
        begins = _fragment(typed[-1] if typed else "", os.environ.get("COMP_WORDBREAKS", ""), quote)
    for word in words_after(typed):
        if "\n" in word.text or "\t" in word.text:
            continue
        text = word.text[begins:]
        if shell == "bash":
            sys.stdout.write((text if quote else _escaped(text)) + ("\n" if word.goes_on else " \n"))
        else:
            sys.stdout.write(f"{text}\t{word.about}\n")


def split_line(line: str) -> tuple[list[str], str]:
    """The words of a command line that may end in the middle of one, and the quote that is still open."""
    words, current, quote, begun = list[str](), "", "", False
    letters = iter(line)
    for letter in letters:
        if quote:
            if letter == quote:
                quote = ""
            elif letter == "\\" and quote == '"':
                current += next(letters, "")
            else:
                current += letter
        elif letter in "'\"":
            quote, begun = letter, True
        elif letter == "\\":
            current, begun = current + next(letters, ""), True
        elif letter in " \t":
            if begun:
                words.append(current)
            current, begun = "", False
        elif letter in "|&;":  # another command begins
            words, current, begun = [], "", False
        else:
            current, begun = current + letter, True
    return [*words, current], quote


def _fragment(current: str, breaks: str, quote: str) -> int:
    """How much of the word bash has set aside: it takes `zoo:clip` for three words, and replaces the last one."""
    if quote:
        return 0
    return max((current.rfind(letter) + 1 for letter in ":=" if letter in breaks), default=0)


def _escaped(text: str) -> str:
    """As it has to be typed; a tilde at the beginning is the shell's."""
    tilde = "~" if text.startswith("~") else ""
    return tilde + _SPECIAL.sub(r"\\\1", text[len(tilde) :])
