# captions are compared by a model behind a URL; the key stays in the environment
smelt hub init --hub their-words --embedder endpoint:text-embedding-3-large \
  --url https://api.openai.com/v1 --key-env OPENAI_API_KEY
