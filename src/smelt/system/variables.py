"""Every environment variable that Smelt reads, in one table: for `smelt info`, and for the page of the commands."""

from __future__ import annotations

__all__ = ["VARIABLES"]

VARIABLES = {
    "SMELT_FUSED": "`0`: merges run in torch, without the compiled pass; the result is the same, later",
    "SMELT_KERNELS": (
        "merges on a GPU: `1` makes a kernel for each kind of tensor even where little is merged, `0` makes none; the "
        "result is the same"
    ),
    "SMELT_CACHE": (
        "the folder of the [cache](#cache); by default `$XDG_CACHE_HOME/smelt`, else `~/.cache/smelt`. Losing it costs "
        "time only"
    ),
    "SMELT_HUB": (
        "the hub, where `--hub` is not given: a folder or `postgresql://...`; `hub:NAME` means a model of it. By "
        "default `$XDG_DATA_HOME/smelt/hub`, else `~/.local/share/smelt/hub`"
    ),
    "SMELT_HUB_FILES": "the folder for files, where the hub is on a Postgres server",
    "SMELT_GS_ENDPOINT": "where `gs://` is, for another server; Google's address by default",
    "SMELT_GRAPHS": "the folder of graphs that have a name; by default `$XDG_DATA_HOME/smelt/graphs`",
    "SMELT_ZOO_CACHE": "where `zoo/build/fetch.py` put WordNet",
    "XDG_CACHE_HOME": "the user's folder of caches",
    "XDG_DATA_HOME": "the user's folder of data",
    "NLTK_DATA": "where WordNet is looked for",
    "OMP_NUM_THREADS": "cores that workers share, and that torch computes with",
    "OPENBLAS_THREAD_TIMEOUT": "set where it is not: threads of numpy sleep when they have nothing to do",
    "NPY_DISABLE_CPU_FEATURES": "set on AMD where it is not: numpy sorts with AVX2",
    "RAY_ADDRESS": "the cluster that the executor `ray` joins; without it one is started here",
    "COLUMNS": "how wide tables are",
    "AZURE_STORAGE_CONNECTION_STRING": "the account of `az://`, with its key",
    "AZURE_STORAGE_ACCOUNT": "the same account by name, with one of the next two",
    "AZURE_STORAGE_KEY": "its key",
    "AZURE_STORAGE_SAS_TOKEN": "a signature in place of its key",
}
"""By name: what it means."""
