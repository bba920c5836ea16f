smelt plan first.yaml
smelt plan -m slerp --model cars --model birds --set t=0.3 --json
