# two experts and one Portland; then every picture by its own merged model
smelt neulig --base zoo:clip-tiny --model photos=zoo:clip-tiny-photos --model digits=zoo:clip-tiny-digits \
  --examples 60 --validation 30 --epochs 5 -o together
smelt eval together --tasks photos,digits --limit 50

# merged, ensembled, and the gap between the two
smelt eval together --tasks photos,digits --limit 50 --level both

# the CoopVec Map's model for one task: an ordinary recipe
smelt merge together/recipes/photos.yaml -o photos
