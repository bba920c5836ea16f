# weights only
smelt analyse cosine pool.yaml --keys 'vision_model.*' -o cosine.csv
smelt analyse norms pool.yaml --keys 'vision_model.*'
smelt analyse signs pool.yaml --keys 'vision_model.*' --density 0.2

# with pictures: accuracy against the scale of a merge, and along the line between two models
smelt analyse scales -m ties --base zoo:clip-tiny --model zoo:clip-tiny-photos --model zoo:clip-tiny-digits \
    --set density=0.2 --set 'include=["vision_model.*"]' --scales 0.3,1 --tasks photos,digits --limit 20
smelt analyse path zoo:clip-tiny-photos zoo:clip-tiny-digits --points 3 --tasks photos,digits --limit 20
