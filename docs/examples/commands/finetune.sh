# what it would need; nothing is done
smelt finetune zoo:clip-tiny --tasks digits --recipe fusionbench-clip -o digits-expert --dry-run

# a picture tower, looked at on val on the way
smelt finetune zoo:clip-tiny --tasks digits --steps 2 --batch 4 --lr 1e-4 --set validation.examples=20 -o digits-expert

# an adapter of a language model
smelt finetune small --tasks tasks/sums --method lora --rank 2 --epochs 1 --batch 3 --lr 1e-3 -o sums-adapter
