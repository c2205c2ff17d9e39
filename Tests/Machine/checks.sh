#!/bin/bash
# The checks of scenarios, to be sourced. Each writes a line: "ok  …", or "FAILED …" and below it what was seen, and the last lines
# of the journal. A scenario goes on after a failure, and fails at its end.

# Those before a reboot count as well.
failures=$(cat /host/results/failures 2>/dev/null || echo 0)
trap 'status=$?; [ "$failures" -eq 0 ] || status=1; exit "$status"' EXIT

failed() { # name, what was seen
    failures=$((failures + 1))
    printf 'FAILED %s\n    %s\n' "$1" "${2//$'\n'/$'\n    '}"
    journalctl --boot --lines=20 --output=short-monotonic --no-hostname --no-pager --quiet | sed 's/^/        /'
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
    setpriv --reuid="$user" --regid="$user" --init-groups \
        env --chdir="/home/$user" HOME="/home/$user" XDG_RUNTIME_DIR="/run/user/$(id --user "$user")" "$@"
}

# Gives the machine a network interface with a default route, whose packets lead nowhere.
network_up() {
    ip link add dummy0 type dummy
    ip address add 192.0.2.10/24 dev dummy0
    ip link set dummy0 up
    ip route add default via 192.0.2.1
}
network_down() { ip link delete dummy0; }

# Starts the machine again; the scenario then runs from its beginning, with the next BOOT. Does not return.
again() {
    echo "$failures" >/host/results/failures
    : >/host/results/reboot
    "$@"
    exec sleep infinity
}
reboot_machine() { again systemctl --no-block reboot; }
# At once: what is not synchronized is lost, as in a power failure (sysrq.rst of the kernel's admin guide).
cut_power() { again tee /proc/sysrq-trigger <<<b; }
