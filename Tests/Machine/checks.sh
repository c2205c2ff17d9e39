#!/bin/bash
# The checks of scenarios, to be sourced. Each writes a line: "ok  …", or "FAILED …" and below it what was seen.
# A scenario goes on after a failure, and fails at its end.

# Those before a reboot count as well.
failures=$(cat /var/lib/failures 2>/dev/null || echo 0)
trap 'status=$?; [ "$failures" -eq 0 ] || status=1; exit "$status"' EXIT

failed() { # name, what was seen
    failures=$((failures + 1))
    printf 'FAILED %s\n' "$1"
    sed 's/^/    /' <<<"$2"
}

# A command succeeds.
check() { # name, command…
    local name=$1 seen status=0
    shift
    seen=$("$@" 2>&1) || status=$?
    if [ "$status" -eq 0 ]; then echo "ok  $name"; else failed "$name" "\`$*\` ended with $status${seen:+: $seen}"; fi
}

# A text is as expected.
equal() { # name, expected, seen
    if [ "$2" = "$3" ]; then echo "ok  $1"; else failed "$1" "expected '$2', seen '$3'"; fi
}

# A number of seconds, perhaps with a fraction, is in a range.
within() { # name, least, most, seen
    if awk -v least="$2" -v most="$3" -v seen="$4" 'BEGIN { exit !(seen != "" && seen >= least && seen <= most) }'; then
        echo "ok  $1 ($4 s)"
    else
        failed "$1" "expected $2 s to $3 s, seen '$4'"
    fi
}

# A command succeeds in time. Other processes make it come true: nothing tells this one.
soon() { # name, seconds, command…
    local name=$1 end=$((SECONDS + $2)) seen status
    shift 2
    while :; do
        status=0
        seen=$("$@" 2>&1) || status=$?
        if [ "$status" -eq 0 ]; then
            echo "ok  $name"
            return
        elif [ "$SECONDS" -ge "$end" ]; then
            failed "$name" "not in time: \`$*\` ended with $status${seen:+: $seen}"
            return
        fi
        sleep 0.2
    done
}

# Runs a command as a user who is not logged in, with the service manager of that user.
as() { # user, command…
    local user=$1
    shift
    runuser --user "$user" -- env --chdir="/home/$user" HOME="/home/$user" XDG_RUNTIME_DIR="/run/user/$(id --user "$user")" "$@"
}

# Starts the machine again; the scenario then runs from its beginning, with the next BOOT. Does not return.
reboot_machine() {
    echo "$failures" >/var/lib/failures
    : >/host/results/reboot
    systemctl --no-block reboot
    exec sleep infinity
}
