
# ArgumentParser's functions know neither default commands nor the command behind --: they get a line with the former, or none.
functions -c __reachability-watch_tokens __reachability-watch_typed
function __reachability-watch_tokens
    contains -- -- (commandline -opc); and return
    set -l words (__reachability-watch_typed $argv)
    if string match -q -- '-p*' $argv
        set -l typed $words[2..] (commandline -ct)
        if string match -q -- '-*' $typed[1]
            set words $words[1] watch $words[2..]
        else if string match -q -- 'fleet -*' "$typed[1..2]"
            set words $words[1..2] list $words[3..]
        else if test "$words[2]" = help
            set words $words[1] $words[3..]
        end
    end
    string join \n -- $words
end

# Completes the command behind -- as if it stood alone.
function __reachability-watch_behind
    set -l words (commandline -opc)
    set -l end (contains -i -- -- $words); or return
    complete -C (string join -- ' ' (string escape -- $words[(math $end + 1)..]) (commandline -ct))
end
complete -c reachability-watch -a '(__reachability-watch_behind)'
