# bash completion of reachability-watch. Scripts/completions fills in what is between at signs.
# shellcheck shell=bash

# Offers the candidates that begin with the current word. Not by `compgen -W`, which expands them.
_reachability_watch_offer() { # candidate…
    local candidate
    for candidate; do
        [[ $candidate != "$cur"* ]] || COMPREPLY+=("$(printf %q "$candidate")")
    done
}

# Offers the values that the program names at this moment.
_reachability_watch_live() { # argument, command…
    local values
    mapfile -t values < <(
        command "${words[0]/#\~/$HOME}" ---completion "${@:2}" -- "$1" 1 "${#cur}" reachability-watch "$cur" 2>/dev/null
    )
    _reachability_watch_offer "${values[@]}"
}

_reachability_watch() {
    # The commands below each command, the commands that run another one, and the options with a value.
    local -A commands=(
        @commands@
    )
    local -A runs=(@runs@)
    local valued=' @valued@ '

    local cur=$2 words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    # bash splits an address at its colons; bash-completion puts it together.
    if declare -F _get_comp_words_by_ref >/dev/null; then _get_comp_words_by_ref -n : cur words cword; fi
    COMPREPLY=()
    local i word option='' command=reachability-watch position=0 offset=1
    for ((i = 1; i < cword; i++)); do
        word=${words[i]}
        if [[ -n $option ]]; then
            # bash splits --option=value, too.
            [[ $word == = ]] || option=''
        elif [[ $word == -- && -n ${runs[$command]:-} ]]; then
            while [[ ${COMP_WORDS[offset]} != -- ]]; do offset=$((offset + 1)); done
            if declare -F _command_offset >/dev/null; then _command_offset $((offset + 1)); else compopt -o default; fi
            return
        elif [[ $word == -* ]]; then
            [[ $valued != *" $word "* ]] || option=$word
        elif [[ $position -eq 0 && " ${commands[$command]:-} " == *" $word "* ]]; then
            command+=" $word"
        elif [[ $word != help ]]; then
            position=$((position + 1))
        fi
    done
    [[ $cur != = ]] || cur=''

    if [[ -n $option ]]; then
        case "$command $option" in
        @values@
        esac
    elif [[ $cur == -* ]]; then
        case $command in
        @options@
        esac
    elif [[ $position -eq 0 && -n ${commands[$command]:-} ]]; then
        read -ra words <<<"${commands[$command]}"
        _reachability_watch_offer "${words[@]}"
    else
        case "$command $position" in
        @positionals@
        esac
    fi
    if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}

complete -F _reachability_watch reachability-watch
