smelt measure gram zoo:clip-tiny-photos --task photos --examples 64 -o photos-gram
smelt merge data/regmean.yaml -o merged      # measures what it needs by itself, once
