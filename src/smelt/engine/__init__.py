"""The engine: models and a recipe in, one merged model out, in bounded memory.

    plan -> run -> sink

The plan (`plan/`) says what every output tensor is made of; execution streams blocks through a pipeline of stages
from `methods` (`run/`: in torch, or by the vector machine on a CPU or a GPU); the sink writes shards, a manifest, and
what else a model folder needs (`sink/`). `request.py` reads the words of a call, `pool.py` opens models, `merge.py`
is one merge from start to end, `scales.py` many that differ in their scale, `convert/` what is written without
merging.
"""
