# configs/modelpool/mine.yaml is then modelpool=mine; any method of Smelt goes by its own name and words
smelt run --config-dir configs method=tsv method.scale=0.8 modelpool=mine \
    taskpool=clip-tiny_TA8 taskpool.tasks=photos limit=20
