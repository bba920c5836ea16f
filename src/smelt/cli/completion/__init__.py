"""What a shell offers when Tab is pressed: scripts for bash, zsh and fish, and the words that they ask Smelt for."""
