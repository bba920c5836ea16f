# the paper's command, with the zoo's pools in place of the public ones
smelt run method=ties_merging method.scaling_factor=0.3 method.threshold=20 \
    modelpool=clip-tiny_TA8 taskpool=clip-tiny_TA8 taskpool.tasks=[photos,digits] limit=50 save_report=ties.json
