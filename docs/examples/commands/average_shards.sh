# what a step of the run is: framework, ranks, step, what is left out
smelt inspect fsdp-run/checkpoint-200

# what each step would weigh, and what the merge takes
smelt average fsdp-run --weights wsm-1-sqrt --plan

# an average that stands for a decay of the learning rate over the last three steps
smelt average fsdp-run --last 3 --weights wsm-1-sqrt -o annealed

# DeepSpeed's files are pickles: they are read, and not run, if you say so
smelt average zero-run --weights exponential --decay 0.8 --allow-pickle \
    -o smooth-zero

# the averaged weights that a training state holds, beside those that were trained
smelt merge -m average --model trained=state.pt --model 'averaged=state.pt#ema' \
    --allow-pickle -o between
