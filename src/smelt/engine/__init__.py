"""The engine: the only room with files, devices, dtypes, threads and progress.

    source -> plan -> execute -> sink

Sources offer tensors by name; the plan is made from their headers alone; execution streams blocks through a
pipeline of stages from `smelt.merge`; the sink writes shards, a manifest, and what else a model folder needs.
"""
