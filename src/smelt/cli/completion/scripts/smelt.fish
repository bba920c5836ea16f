# Completion of `smelt` for fish, written by `smelt --show-completion fish`.
function __smelt_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    test -n "$current"; or set current ""
    eval (string escape -- $words[1]) __complete fish (string escape -- $words[2..-1]) (string escape -- "$current") 2>/dev/null
end
complete -c smelt -f -k -a '(__smelt_complete)'
