# the mean of the last three checkpoints of a training run
smelt average run --last 3 -o averaged

# later steps weigh more; and one model for every place of a window of two
smelt average run --weights ema --decay 0.8 -o smooth
smelt average run --last 2 --each -o windows
