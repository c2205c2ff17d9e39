#compdef reachability-watch
# zsh completion of reachability-watch. Scripts/completions fills in what is between at signs.

# Offers the values that the program names at this moment.
_reachability_watch_live() { # argument, command…
    local -a values
    values=(${(f)"$(command ${reachability_watch/#\~/$HOME} ---completion ${@[2,-1]} -- $1 1 ${#PREFIX} reachability-watch "$PREFIX" 2>/dev/null)"})
    compadd -a values
}

@functions@

local reachability_watch=$words[1]
_reachability_watch "$@"
