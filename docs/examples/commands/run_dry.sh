# compose, check and show; nothing is loaded or downloaded
smelt run method=task_arithmetic modelpool=clip-vit-large-patch14_TA8 taskpool=clip-vit-classification_TA8 \
    taskpool.clip_model=openai/clip-vit-large-patch14 dry_run=true
