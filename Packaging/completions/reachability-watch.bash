
# ArgumentParser's function knows neither the options of default commands, addresses with colons, --option=value, nor the command
# behind --: it gets a line without these.
_reachability_watch() {
    local word words cword line=()
    for ((cword = 1; cword < COMP_CWORD; cword++)); do
        [[ ${COMP_WORDS[cword]} != -- ]] || { _command_offset $((cword + 1)); return; }
    done
    _get_comp_words_by_ref -n : words cword
    [[ ${words[cword]} != = ]] || words[cword]=''
    for word in "${words[@]:1:cword}"; do [[ $word == = ]] || line+=("$word"); done
    [[ ${line[0]} != help || ${#line[@]} -eq 1 ]] || line=("${line[@]:1}")
    case ${line[*]:0:2} in
    -*) line=(watch "${line[@]}") ;;
    'fleet -'*) line=(fleet list "${line[@]:1}") ;;
    esac
    COMP_WORDS=("${1/#\~/$HOME}" "${line[@]}") COMP_CWORD=${#line[@]} COMP_LINE="${COMP_WORDS[*]}" COMP_POINT=${#COMP_LINE}
    _reachability-watch "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    # Otherwise it would run again after each file that the shell reads.
    trap - RETURN
    __ltrim_colon_completions "${COMP_WORDS[COMP_CWORD]}"
}
complete -o filenames -F _reachability_watch reachability-watch
