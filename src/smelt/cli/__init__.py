"""The command line: one file per command group, each command a thin door to a public function.

Exit codes are a contract: 0 done, 2 a request that cannot be served, 1 anything else.
"""

from __future__ import annotations

import gc

__all__ = ["main"]


def main() -> None:
    """Entry point of the `smelt` command."""
    gc.set_threshold(200_000, 20, 20)  # collecting garbage while libraries load costs a tenth of the start-up

    from smelt.cli.app import run

    run()
