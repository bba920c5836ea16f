# Completion of `smelt` for bash, written by `smelt --show-completion bash`.
_smelt() {
    local IFS=$'\n'
    COMPREPLY=($(COMP_LINE=$COMP_LINE COMP_POINT=$COMP_POINT COMP_WORDBREAKS=$COMP_WORDBREAKS \
        "${1/#\~/$HOME}" __complete bash 2>/dev/null))
}
# Every word comes with its space, where one is to follow it.
complete -o nospace -F _smelt smelt
