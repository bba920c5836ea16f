# what the set asks, as a model sees it
smelt tasks tasks/at-a-glance

# one model on it
smelt eval seer-animals --tasks tasks/at-a-glance -o rows.jsonl

# two of them merged; the vision tower stays as it is
smelt merge -m ties --base seer --model seer-animals --model seer-numbers --set density=0.5 -o merged
smelt eval merged --tasks tasks/at-a-glance -o rows.jsonl
