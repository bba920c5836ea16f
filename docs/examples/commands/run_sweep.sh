# one run for each value; the tasks' pictures are read once
smelt run -m method=task_arithmetic 'method.scaling_factor=0.1,0.3' modelpool=clip-tiny_TA8 \
    taskpool=clip-tiny_TA8 taskpool.tasks=photos limit=20 'save_report=ta_${method.scaling_factor}.json'
