# what the task asks, how it judges, and what data it has
smelt tasks tasks/capitals

# one model on it, with the task's own judge.py; the rows say everything that a number follows from
smelt eval small --tasks tasks/capitals --limit 2 -o rows.jsonl --trust-remote-code
