"""The engine: the only room with devices, threads and progress.

    plan -> run -> sink

The plan is made from headers alone (`plan/`); execution streams blocks through a pipeline of stages from `methods`
(`run/`: eagerly in torch, or fused on a CPU or GPU); the sink writes shards, a manifest, and what else a model folder
needs (`sink/`). `merge.py` is one merge from start to end, `scales.py` many that differ in their scale, `convert/` what
is written without merging.
"""
