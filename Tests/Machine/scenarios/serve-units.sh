#!/bin/bash
# The units of the service: readiness, status, the hand-over of the event socket, the target, the watchdog. The machine has no
# network interface but lo, unless network_up has added one.
set -u
# shellcheck source=Tests/Machine/checks.sh
. /host/tests/checks.sh

unit=reachability.service socket=reachability-netlink.socket
property() { systemctl show --property="$2" --value "$1"; }
status_has() { property $unit StatusText | grep --quiet -- "$1"; }
is() { [ "$(property "$1" ActiveState)" = "$2" ]; }
# A request without curl(1); the answer with its head.
get() { # path
    exec 3<>/dev/tcp/127.0.0.1/8787 || return
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$1" >&3
    cat <&3
    exec 3>&-
}
metric() { get /metrics | sed --quiet "s/^reachability_monitor_$1 \([0-9]*\)\r*\$/\1/p"; }
answers() { get /status | grep --quiet '"scopes"'; }
# The sum over all runs that have ended, by their last lines.
ended_rules() {
    journalctl --unit=$unit --output=cat | sed --quiet 's/.*ended after .*rule \([0-9]*\).*/\1/p' |
        awk '{ sum += $1 } END { print sum + 0 }'
}
runs() { journalctl --unit=$unit --output=cat | grep --count "$1"; }
# The inode of the socket that the service got: the same as long as the socket unit lives.
inode() {
    local pid
    pid=$(property $unit MainPID)
    awk '$2 == 0 && $4 != "00000000" { print $10 }' /proc/net/netlink | sort >/tmp/inodes
    find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' | sort | comm -12 - /tmp/inodes
}
rule() { ip rule "$1" priority "$2" to 203.0.113.0/24 prohibit; }

export SYSTEMD_LOG_LEVEL=warning
for name in $unit $socket reachability-online.target reachability-wait-online.service; do
    check "systemd finds nothing wrong in $name" systemd-analyze --man=no verify "$name"
done

# Offline: the service starts, and says so.
check "the service is enabled and starts without a network" systemctl enable --now $unit
equal "it has said that it is ready" "active, running" "$(property $unit ActiveState), $(property $unit SubState)"
check "its status has the verdict" status_has '^unsatisfied: '
equal "the socket came with it" active "$(property $socket ActiveState)"
soon "it answers requests" 20 answers
pid=$(property $unit MainPID)
equal "it has no privileges" "CapBnd 0000000000000000 NoNewPrivs 1 Seccomp 2 " \
    "$(sed --quiet 's/^\(CapBnd\|NoNewPrivs\|Seccomp\):\t\(.*\)/\1 \2/p' "/proc/$pid/status" | tr '\n' ' ')"
check "it has a user of its own" test "$(stat --format=%u "/proc/$pid")" -ge 61184
check "its history is in its directory" test -s /var/lib/private/reachability/history.db
check "it hears the kernel's events" grep --quiet '"mode":"live"' <(get /status)

# The target waits for the network.
systemctl --no-block start reachability-online.target
soon "the target waits while there is no network" 20 is reachability-wait-online.service activating
equal "it is not reached" inactive "$(property reachability-online.target ActiveState)"
network_up
soon "it is reached when the network is there" 30 is reachability-online.target active
soon "the status follows" 20 status_has '^satisfied via dummy0, gateway 192.0.2.1'

# 1 000 changes during 20 restarts.
before=$(ended_rules)
start=$(inode)
for run in $(seq 20); do
    for number in $(seq 50); do rule add $((1000 + run * 50 + number)); done &
    systemctl restart $unit || failed "restart $run" "$(systemctl status --no-pager $unit)"
    wait
done
equal "the service has started 21 times" 21 "$(runs 'serving on ')"
equal "with the same socket" "$start" "$(inode)"
systemctl restart $unit
equal "1000 changes during 20 restarts are all read" $((before + 1000)) "$(ended_rules)"
for name in event_losses_total dropped_events_total socket_reopens_total missed_events_total; do
    equal "$name is 0" 0 "$(metric $name)"
done

# A crash: the socket stays, and what waits in it is read.
systemctl kill --kill-whom=main --signal=KILL $unit
for number in $(seq 10); do rule del $((1050 + number)); done
soon "after a crash the service starts again" 30 is $unit active
equal "as a restart" 1 "$(property $unit NRestarts)"
equal "with the same socket" "$start" "$(inode)"
equal "it reads what happened meanwhile" 10 "$(metric 'events_total{kind="rule"}')"

# A stop: no event starts it again.
systemctl stop $unit
soon "the socket stops with the service" 10 is $socket inactive
rule del 1061
sleep 2
equal "an event does not start it" inactive "$(property $unit ActiveState)"

# A service that stands still is killed, and starts again.
mkdir -p /run/systemd/system/$unit.d
printf '[Service]\nWatchdogSec=10s\n' >/run/systemd/system/$unit.d/watchdog.conf
systemctl daemon-reload
systemctl start $unit
sleep 25
equal "the reader feeds the watchdog" 0 "$(property $unit NRestarts)"
pid=$(property $unit MainPID)
kill -STOP "$pid"
restarted() { [ "$(property $unit NRestarts)" = 1 ] && is $unit active; }
soon "a service that stands still is killed by the watchdog, and starts again" 60 restarted
check "systemd says why" grep --quiet 'Watchdog timeout' <(journalctl --unit=$unit --output=cat)
equal "no unit of the machine has failed" "" "$(systemctl list-units --failed --no-legend --plain)"
