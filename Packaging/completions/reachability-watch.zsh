
# ArgumentParser's function knows neither the options of default commands nor the command behind --: it gets a line without these.
_reachability_watch() {
    integer end=${words[(i)--]}
    if (( end < CURRENT )); then
        compset -n $((end + 1))
        _normal
        return
    fi
    if [[ $words[2] == help ]] && (( CURRENT > 2 )); then
        words[2]=()
        (( CURRENT-- ))
    fi
    case "$words[2] $words[3]" in
    -*) words[2]=(watch "$words[2]") && (( CURRENT++ )) ;;
    'fleet -'*) words[3]=(list "$words[3]") && (( CURRENT++ )) ;;
    esac
    words[1]=${words[1]/#\~/$HOME}
    _reachability-watch
}
compdef _reachability_watch reachability-watch
_reachability_watch
