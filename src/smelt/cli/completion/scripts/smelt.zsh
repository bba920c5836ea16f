#compdef smelt
# Completion of `smelt` for zsh, written by `smelt --show-completion zsh`.
_smelt() {
    local line word about
    local -a ends goes_on ends_shown goes_on_shown
    for line in "${(@f)$("${(@Q)words[1]/#\~/$HOME}" __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        word=${line%%$'\t'*} about=${line#*$'\t'}
        [[ -n $word ]] || continue
        [[ -n $about ]] && about="$word  -- $about" || about=$word
        case $word in
            */|*=|*:|*,) goes_on+=("$word") goes_on_shown+=("$about") ;;
            *) ends+=("$word") ends_shown+=("$about") ;;
        esac
    done
    (( $#ends )) && compadd -l -d ends_shown -- "${ends[@]}"
    (( $#goes_on )) && compadd -l -d goes_on_shown -S '' -- "${goes_on[@]}"
    (( $#ends + $#goes_on ))
}
if [[ $funcstack[1] == _smelt ]]; then
    _smelt "$@"
else
    compdef _smelt smelt
fi
