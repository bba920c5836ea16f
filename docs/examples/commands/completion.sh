smelt --show-completion bash > smelt-completion.bash
smelt --show-completion zsh > _smelt
smelt --show-completion fish > smelt.fish
