smelt export talk -o talk.gguf --type q8_0 --modelfile
