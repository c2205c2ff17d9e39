#!/bin/bash
# The units of the queue's worker: Ada has the user unit and lingers, Bob has the instance of the template. The machine has no
# network interface but lo, unless network_up has added one.
set -u
# shellcheck source=Tests/Machine/checks.sh
. /host/tests/checks.sh

queue() { as "$1" reachability-watch queue "${@:2}"; }
add() { queue "$1" add "${@:2}" >/dev/null; }
adas_unit() { as ada systemctl --user "$@" reachability-queue.service; }
bobs_unit() { systemctl "$@" reachability-queue@bob.service; }
state() { # adas_unit or bobs_unit
    echo "$("$1" show --property=ActiveState --value), $("$1" show --property=Result --value)"
}
now() { cut -d ' ' -f 1 /proc/uptime; }
since() { awk -v from="$1" '{ printf "%.1f", $1 - from }' /proc/uptime; }
lists() { queue "$1" list "${@:3}" | grep --quiet -- "$2"; }

# A log of a witness: lines of the seconds since the boot, and a word.
count() { grep --count " $2" "$1" 2>/dev/null; }
has() { [ "$(count "$1" "$2")" -ge "${3:-1}" ]; }
# The seconds from its last SIGTERM to its last sign of life; shell commands on a busy machine note both late.
endured() { awk '/ TERM/ { term = $1 } / alive/ { alive = $1 } END { if (term != "") printf "%.1f", alive - term }' "$1"; }
is_gone() { # log
    local pid
    pid=$(sed --quiet 's/.* start .*pid //p' "$1" | tail -n 1)
    [ -n "$pid" ] && ! kill -0 "$pid"
}

if [ "$BOOT" = 1 ]; then
    useradd --create-home ada
    useradd --create-home bob
    cat >/usr/local/bin/witness <<'WITNESS'
#!/bin/sh
# witness polite|stubborn|child LOG: lives until it is ended, and logs that. `polite` dies of SIGTERM. `stubborn` does not, nor does
# its child, which has a session of its own.
log=$2
say() {
    read -r now rest </proc/uptime
    echo "$now $*" >>"$log"
}
case $1 in
polite) trap 'say TERM; trap - TERM; kill -TERM $$' TERM ;;
stubborn)
    setsid "$0" child "$log.child" &
    trap 'say TERM' TERM
    ;;
child) trap 'say TERM' TERM ;;
esac
say "start as $(id --user --name) in $(cut -d : -f 3 /proc/self/cgroup), $(grep NoNewPrivs /proc/self/status | tr '\t' ' '), pid $$"
while :; do
    say alive
    sleep 0.3
done
WITNESS
    chmod +x /usr/local/bin/witness
    ada=$(id --user ada)
    export SYSTEMD_LOG_LEVEL=warning

    check "systemd finds nothing wrong in the template" systemd-analyze --man=no verify reachability-queue@bob.service

    loginctl enable-linger ada
    soon "a service manager runs for a user who is not logged in" 60 test -S "/run/user/$ada/systemd/private"
    check "systemd finds nothing wrong in the user unit" as ada systemd-analyze --user --man=no verify reachability-queue.service
    check "the user unit is enabled and started" adas_unit enable --now
    check "the template is enabled and started for a user" bobs_unit enable --now

    # Offline: what needs no network runs, as its user and in the unit.
    add ada -- touch internet
    for user in ada bob; do add "$user" --connectivity ignore -- witness polite polite.log; done
    adas=/home/ada bobs=/home/bob
    soon "the user unit runs a command" 60 has "$adas/polite.log" start
    soon "the template runs a command of the user's own store" 60 has "$bobs/polite.log" start
    in_unit() { sed --quiet 's/.* start \(.*\), pid .*/\1/p' "$1" | head -n 1; }
    equal "the user unit runs it as the user, without new privileges" "$(in_unit "$adas/polite.log")" \
        "as ada in /user.slice/user-$ada.slice/user@$ada.service/app.slice/reachability-queue.service, NoNewPrivs: 1"
    equal "the template runs it as the user, without new privileges" "$(in_unit "$bobs/polite.log")" \
        "as bob in /system.slice/system-reachability\\x2dqueue.slice/reachability-queue@bob.service, NoNewPrivs: 1"
    soon "the list says why a command for the internet waits" 60 lists ada 'waits for the network: there is no interface'
    check "a command for the internet has not run" test ! -e "$adas/internet"

    # A stop: SIGTERM for the command, which runs again after the next start.
    start=$(now)
    check "the user unit stops" adas_unit stop
    within "it waits no longer than its command" 0 4 "$(since "$start")"
    start=$(now)
    check "the template stops" bobs_unit stop
    within "it waits no longer than its command" 0 4 "$(since "$start")"
    for unit in adas_unit bobs_unit; do equal "$unit is stopped, not failed" "inactive, success" "$(state $unit)"; done
    for home in $adas $bobs; do
        equal "the command in $home got SIGTERM once" 1 "$(count "$home/polite.log" TERM)"
        check "the command in $home has ended" is_gone "$home/polite.log"
    done
    adas_unit start
    bobs_unit start
    for home in $adas $bobs; do soon "the command in $home runs again" 60 has "$home/polite.log" start 2; done

    # A stop with a command that does not end: SIGKILL after 5 s, by the worker and not by systemd.
    for user in ada bob; do add "$user" --name stubborn --connectivity ignore -- witness stubborn stubborn.log; done
    for home in $adas $bobs; do soon "a stubborn command runs in $home" 60 has "$home/stubborn.log.child" start; done
    start=$(now)
    adas_unit stop &
    bobs_unit stop
    wait
    within "both units stop" 4 12 "$(since "$start")"
    for unit in adas_unit bobs_unit; do equal "$unit is stopped, not failed" "inactive, success" "$(state $unit)"; done
    for home in $adas $bobs; do
        within "the stubborn command in $home gets SIGKILL after 5 s" 3 9 "$(endured "$home/stubborn.log")"
        within "so does its child" 3 9 "$(endured "$home/stubborn.log.child")"
        check "the stubborn command in $home has ended" is_gone "$home/stubborn.log"
        check "its child has ended" is_gone "$home/stubborn.log.child"
    done
    equal "systemd itself had nothing to kill" "" "$(journalctl --boot --output=cat | grep 'reachability-queue.*Killing')"
    adas_unit start
    bobs_unit start
    for user in ada bob; do
        soon "the stubborn command of $user runs again" 60 has "/home/$user/stubborn.log" start 2
        queue "$user" list --format json | sed --quiet 's/.*"id":"\([0-9a-f]*\)".*"name":"stubborn".*/\1/p' >"/tmp/stubborn-$user"
        queue "$user" cancel 2>/dev/null "$(<"/tmp/stubborn-$user")"
    done

    # A command that runs out of memory takes only itself along.
    systemctl set-property --runtime reachability-queue@bob.service MemoryMax=300M
    worker=$(bobs_unit show --property=MainPID --value)
    add bob --name greedy --connectivity ignore --attempts 1 -- tail /dev/zero
    soon "a command that takes all memory is killed" 60 lists bob greedy --state failed
    equal "the worker goes on" "$worker" "$(bobs_unit show --property=MainPID --value)"

    # The worker is killed.
    starts=$(count "$bobs/polite.log" start)
    start=$(now)
    bobs_unit kill --kill-whom=main --signal=KILL
    soon "the command of a killed worker ends" 15 is_gone "$bobs/polite.log"

    # Meanwhile there is a network.
    network_up
    soon "with a network the command for the internet runs" 30 test -e "$adas/internet"
    network_down

    soon "the unit is restarted after a kill, and the command runs again" 90 has "$bobs/polite.log" start $((starts + 1))
    within "after RestartSec" 30 60 "$(since "$start")"
    equal "it was one restart" 1 "$(bobs_unit show --property=NRestarts --value)"

    # Something that waits, and something that runs, over a reboot.
    for user in ada bob; do
        add "$user" -- touch rebooted
        has "/home/$user/polite.log" start || failed "no command of $user runs" "$(queue "$user" list)"
        rm "/home/$user/polite.log"
    done
    reboot_machine
fi

for user in ada bob; do
    soon "the worker of $user runs after a reboot" 60 has "/home/$user/polite.log" start
    equal "the shutdown sent SIGTERM to the command of $user" TERM \
        "$(sed --quiet 's/.* \(TERM\|start\).*/\1/p' "/home/$user/polite.log" | head -n 1)"
done
equal "no user is logged in" "" "$(loginctl list-sessions --no-legend)"
soon "the list of ada says why a command waits" 60 lists ada 'waits for the network'
check "it has not run" test ! -e /home/ada/rebooted -a ! -e /home/bob/rebooted
network_up
for user in ada bob; do soon "the waiting command of $user runs" 60 test -e "/home/$user/rebooted"; done
worker=$(bobs_unit show --property=MainPID --value)
equal "the worker writes nothing but its messages to the journal" "" \
    "$(journalctl --boot --output=cat "_PID=$worker" | grep --invert-match '^reachability-watch: ')"
equal "no unit of the machine has failed" "" "$(systemctl list-units --failed --no-legend --plain)"
