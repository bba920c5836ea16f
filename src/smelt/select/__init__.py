"""Selection: a recipe with many models in, the group of them that is worth merging out, with the whole way to it.

`uq_merge` needs no labels: it goes by how uncertain the merges are. `soup` is its reference that looks at labels. What
the models answered is kept (`store`), so that any other analysis needs no new pass. Merges come from the engine, what
models answer from `evaluate`; suites and reports are elsewhere. Names load when they are first used.

    smelt.select.uq_merge("pool.yaml", out="chosen", tasks="mllm10")
"""
