# a cross-encoder puts the candidates of a first search into a better order
smelt eval reranker --tasks tasks/alike,tasks/rerank

# two classifiers with the same labels, merged and asked
smelt merge -m average --model moods-hotels --model moods-trains -o moods
smelt eval moods --tasks tasks/moods

# a reward model: how often the reply that people chose gets the higher reward
smelt eval helpful --tasks tasks/helpful
