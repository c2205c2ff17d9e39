#!/bin/bash
# Hooks within the sandbox of the service's unit, with the additions that docs/hooks.md shows.
set -u
# shellcheck source=Tests/Machine/checks.sh
. /host/tests/checks.sh

unit=reachability.service hooks=/etc/reachability/hooks.d
is() { [ "$(systemctl show --property=ActiveState --value "$1")" = "$2" ]; }
lines() { journalctl --unit=$unit --output=cat; }
says() { lines | grep --quiet --fixed-strings -- "$1"; }
# The process that a hook leaves in the background; the machine has no pgrep.
left() { grep --files-with-matches --null-data --line-regexp '[1]000' /proc/[0-9]*/cmdline 2>/dev/null; }
hook() { # name, mode; the script comes from standard input
    { echo '#!/bin/sh' && cat; } >"$hooks/.$1" && chmod "$2" "$hooks/.$1" && mv "$hooks/.$1" "$hooks/$1"
}

# As in docs/hooks.md.
mkdir -p $hooks /etc/systemd/system/$unit.d
cat >/etc/systemd/system/$unit.d/hooks.conf <<END
[Service]
ExecStart=
ExecStart=/usr/local/bin/reachability-watch serve --hooks $hooks
TimeoutStopSec=15s
END
cat >/etc/systemd/system/on-online.path <<'END'
[Path]
PathModified=/var/lib/reachability/online
END
cat >/etc/systemd/system/on-online.service <<'END'
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'id --user >>/root/online'
END
hook 10-touch 755 <<'END'
[ "$1" != online ] || touch "$STATE_DIRECTORY/online"
END
hook 20-look 755 <<END
echo "\$1 as \$(id --user), \$(ls /proc/self/fd | wc -l) files, notify=\${NOTIFY_SOCKET-none}"
touch $hooks/new
END
hook 30-loose 775 <<<'echo loose'

check "the path unit starts" systemctl start on-online.path
check "the service starts with hooks" systemctl start $unit
soon "it names them" 20 says "hooks in $hooks: 10-touch 20-look"
user=$(systemctl show --property=MainPID --value $unit | xargs -I{} stat --format=%u /proc/{})
soon "a hook runs as the user of the service, with nothing of it" 20 says "hook 20-look: offline as $user, 4 files, notify=none"
check "it cannot write to its own directory" says 'Read-only file system'
soon "a failure is reported" 20 says 'hook 20-look: exit code 1'
soon "a hook that others can write is refused" 20 says "the hook $hooks/30-loose can be written by other users; next: chmod go-w"
check "it does not run" test -z "$(lines | grep 'hook 30-loose:')"
network_up
soon "a change runs the hooks" 30 says "hook 20-look: online as $user"
soon "a hook starts a unit with more rights" 30 test -s /root/online
equal "that runs as root" 0 "$(sort --unique /root/online)"

# The end of the service, with a hook that ignores SIGTERM and a process that an earlier one has left.
hook 10-touch 755 <<'END'
[ "$1" = online ] || { sleep 1000 & }
END
hook 20-look 755 <<'END'
[ "$1" = online ] || exit 0
trap '' TERM
echo stuck
while :; do sleep 1; done
END
network_down
soon "a process stays in the background" 20 left
network_up
soon "a hook is stuck" 30 says 'hook 20-look: stuck'
start=$EPOCHREALTIME
check "the service stops" systemctl stop $unit
within "it has killed the hook after 5 s" 4 14 "$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')"
check "it was not killed itself" test -z "$(lines | grep 'Killing process')"
equal "no process is left" "" "$(left)"
equal "no unit of the machine has failed" "" "$(systemctl list-units --failed --no-legend --plain)"
