# how many experts, how many per token, shared ones, routers
smelt inspect moe

# experts by TIES, shared experts by their mean, routers as the base has them
smelt merge experts.yaml -o merged-moe

# two runs whose experts may have changed places
smelt merge -m ties --base moe --model moe-maths --model moe-coding \
    --set align_experts=true -o matched-moe
