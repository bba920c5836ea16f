# one model, one task, no merging
smelt eval zoo:clip-tiny-photos --tasks photos --limit 100

# several tasks on pictures that may be looked at as often as you like; what was taken for what; rows kept
smelt eval zoo:clip-tiny --tasks photos,digits --split val --limit 50 --confusion -o rows.jsonl
