# fish completion of reachability-watch. Scripts/completions fills in what is between at signs.

# Prints the command before the cursor, such as "queue add", and the number of its arguments so far; fails behind --.
function __reachability_watch_command
    set -l commands @commands@
    set -l runs @runs@
    set -l valued @valued@
    set -l command
    set -l count 0
    set -l is_value 0
    for word in (commandline -opc)[2..]
        set -l next (string join ' ' -- $command $word)
        if test $is_value = 1
            set is_value 0
        else if test "$word" = --; and contains -- "$command" $runs
            return 1
        else if string match -q -- '-*' $word
            contains -- $word $valued; and set is_value 1
        else if test $count = 0; and contains -- "$next" $commands
            set command $next
        else if test "$word" != help
            set count (math $count + 1)
        end
    end
    printf '%s\n' "$command" $count
end

# Succeeds in one of these commands, and with a number only at its argument of this number.
function __reachability_watch_in
    argparse 'n/number=' -- $argv
    set -l state (__reachability_watch_command); or return
    contains -- "$state[1]" $argv; and test -z "$_flag_number" -o "$_flag_number" = "$state[2]"
end

# Prints the values that the program names at this moment.
function __reachability_watch_live # argument, command…
    set -l token (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l words (commandline -opc)
    command $words[1] ---completion $argv[2..] -- $argv[1] 1 (string length -- "$token") reachability-watch "$token" 2>/dev/null
end

# Completes the command behind -- as if it stood alone.
function __reachability_watch_behind
    set -l words (commandline -opc)
    set -l start (math (contains -i -- -- $words) + 1)
    complete -C (string join -- ' ' (string escape -- $words[$start..]) (commandline -ct))
end

complete -c reachability-watch -f
complete -c reachability-watch -n 'not __reachability_watch_command >/dev/null' -a '(__reachability_watch_behind)'
@completions@
