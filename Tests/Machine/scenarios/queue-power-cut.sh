#!/bin/bash
# The power fails while the queue takes on commands: what `queue add` has accepted runs after the next boot.
set -u
# shellcheck source=Tests/Machine/checks.sh
. /host/tests/checks.sh

queue() { as ada reachability-watch queue "$@"; }
# Not on the machine's disk: written by the host, which has no power failure.
accepted=/host/results/accepted

if [ "$BOOT" = 1 ]; then
    useradd --create-home ada
    as ada mkdir results
    loginctl enable-linger ada
    soon "Ada's service manager runs" 60 test -S "/run/user/$(id --user ada)/systemd/private"
    check "her worker is enabled and runs" as ada systemctl --user enable --now reachability-queue.service
    queue add --name long --connectivity ignore -- sh -c 'echo >>started; exec sleep 1000'
    soon "a command runs" 60 test -s /home/ada/started
    # From here on only what programs synchronize themselves is on the disk.
    sync
    for _ in 1 2 3 4 5 6 7 8; do
        # shellcheck disable=SC2016 # the variable is the command's
        queue add -- sh -c 'mkdir "results/$REACHABILITY_JOB"' >>"$accepted"
    done
    cut_power
fi

equal "eight commands were accepted" 8 "$(wc -l <"$accepted")"
equal "each is there after the power failure" "$(sort "$accepted")" \
    "$(queue list --state waiting --format json | sed --quiet 's/.*"id":"\([0-9a-f]*\)".*/\1/p' | sort)"
runs_again() { [ "$(wc -l </home/ada/started)" -ge 2 ]; }
soon "the command that ran runs again" 60 runs_again
network_up
all_ran() { [ "$(ls /home/ada/results)" = "$(sort "$accepted")" ]; }
soon "each has run once the network is there" 60 all_ran
