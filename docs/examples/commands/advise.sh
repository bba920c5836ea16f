smelt advise --size 8B --base-kind instruct --validation llm5-val
smelt advise --base small --model maths=small-maths --model coding=small-coding --training maths=tasks/sums,coding=tasks/lines -o advised.yaml
