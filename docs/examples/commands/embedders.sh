# two fine-tunes of one embedder become one, with all of its modules
smelt inspect sentences-news
smelt merge -m task_arithmetic --base sentences --model sentences-news \
    --model sentences-law --set scale=0.5 -o both

# how well it tells alike sentences and finds documents, by three metrics
smelt eval both \
    --tasks tasks/alike,tasks/facts,tasks/facts@mrr@10,tasks/facts@recall@2 \
    -o rows.jsonl
