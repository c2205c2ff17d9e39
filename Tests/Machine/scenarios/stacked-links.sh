#!/bin/bash
# Interfaces that stand on others: VLAN, ipvlan, macvlan, VRF, bond, GRE and WireGuard over a cable to another network namespace.
# What connect(2) and the far end say is compared with what `status` says, before and after the cable or the parent goes.
set -u
# shellcheck source=Tests/Machine/checks.sh
. /host/tests/checks.sh

far() { ip netns exec far "$@"; }
# A machine with a cable to `far`, which holds an address of the internet of each family and refuses all connections.
begin() {
    ip netns add far
    ip link add eth0 type veth peer name remote0 netns far
    far ip link set lo up
    for address in 198.41.0.4/32 1.1.1.1/32 2001:503:ba3e::2:30/128 2801:1b8:10::b/128; do far ip address add $address dev lo; done
    far ip link set remote0 up
    ip link set eth0 up
}
# Both ends of a link get addresses, and a default route leads to the far one.
connect() { # interface here, interface there
    far ip address add 192.0.2.1/24 dev "$2"
    far ip address add 2001:db8:1::1/64 dev "$2" nodad
    ip address add 192.0.2.10/24 dev "$1"
    ip address add 2001:db8:1::10/64 dev "$1" nodad
    ip route add default via 192.0.2.1 dev "$1" "${@:3}"
    ip -6 route add default via 2001:db8:1::1 dev "$1" "${@:3}"
}
end() {
    for link in "$@" eth0; do ip link delete "$link" 2>/dev/null; done
    ip netns delete far
}
# True if the far end refuses a connection: packets arrive, and come back.
answered() { timeout 3 bash -c ": </dev/tcp/$1/9" 2>&1 | grep --quiet 'refused'; }
silent() { ! answered "$1"; }
said() { reachability-watch status "$@" | grep --quiet --fixed-strings -- "$words"; }
online() { # name, words, options of status…
    local name=$1 words=$2
    soon "$name: packets arrive" 10 answered 1.1.1.1
    soon "$name: status says so" 10 said "${@:3}"
}
offline() { # name, words, options of status…
    local name=$1 words=$2
    check "$name: no packet arrives" silent 1.1.1.1
    soon "$name: status says so" 3 said "${@:3}"
}
# The lines of a watch that began before the change.
has_line() { grep --quiet --fixed-strings -- "$1" /tmp/lines || { cat /tmp/lines && false; }; }
watching() {
    reachability-watch watch >/tmp/lines &
    watch=$!
    soon "watch runs" 30 has_line online
}
lost() { # name, words
    soon "$1: watch says so" 10 has_line "$2"
    kill $watch
    wait $watch 2>/dev/null
}

# The kernel sets a VLAN down with its parent; with loose_binding it stays up, and sends nowhere.
for binding in off on; do
    begin
    ip link add link eth0 name eth0.7 type vlan id 7 loose_binding $binding
    far ip link add link remote0 name remote0.7 type vlan id 7
    ip link set eth0.7 up
    far ip link set remote0.7 up
    connect eth0.7 remote0.7
    online "a VLAN with loose_binding $binding" "satisfied via eth0.7"
    watching
    ip link set eth0 down
    # Without loose_binding the kernel drops the routes.
    offline "its parent is shut down, loose_binding $binding" "unsatisfied: "
    lost "its parent is shut down, loose_binding $binding" "offline  "
    end eth0.7
done

for kind in "macvlan mode bridge" "ipvlan mode l2"; do
    begin
    # shellcheck disable=SC2086 # a kind and its mode
    ip link add link eth0 name upper0 type $kind
    ip link set upper0 up
    connect upper0 remote0
    online "${kind%% *}" "satisfied via upper0"
    watching
    far ip link set remote0 down
    offline "${kind%% *}: the cable is out" "unsatisfied: no carrier"
    lost "${kind%% *}: the cable is out" ": no carrier"
    far ip link set remote0 up
    soon "${kind%% *}: the cable is in" 5 answered 1.1.1.1
    ip link set eth0 down
    offline "${kind%% *}: the parent is shut down" "unsatisfied: "
    end upper0
done

# A VRF that is down has no routes; over IPv6 a port's own addresses keep theirs.
begin
ip link add red type vrf table 100
ip link set red up
ip link set eth0 master red
connect eth0 remote0 table 100
words="satisfied via eth0"
soon "a port of a VRF: status says so" 10 said --interface eth0
ip link set red down
words="eth0 stands on red, which is shut down"
soon "its VRF is shut down: status says so" 3 said --interface eth0 --to 2001:db8:1::1
end red

# A bond has carrier as long as one of its ports has.
begin
ip link add eth1 type veth peer name remote1 netns far
ip link add bond0 type bond mode active-backup miimon 100
far ip link add br0 type bridge
far ip link set br0 up
for port in 0 1; do
    ip link set eth$port down
    ip link set eth$port master bond0
    ip link set eth$port up
    far ip link set remote$port master br0
    far ip link set remote$port up
done
ip link set bond0 up
connect bond0 br0
online "a bond" "satisfied via bond0"
far ip link set remote0 down
online "one of its ports lost its cable" "satisfied via bond0"
watching
far ip link set remote1 down
offline "both did" "unsatisfied: no carrier"
lost "both did" ": no carrier"
end bond0 eth1

# A virtual machine's port keeps a bridge's carrier. With VLAN filtering the bridge knows the gateway in a VLAN, here at one
# port, and then, in another VLAN, at a second one: nothing tells them apart, and the bridge counts by itself.
for more in "" "with the gateway in two VLANs"; do
    begin
    ip link add br0 type bridge vlan_filtering 1
    ip link add vm0 type veth peer name vm1
    for port in eth0 vm0; do ip link set $port master br0; done
    for link in vm0 vm1 br0; do ip link set $link up; done
    connect br0 remote0
    online "a bridge with VLAN filtering $more" "satisfied via br0"
    # A bridge knows where a gateway is once it has forwarded a packet of it.
    soon "a bridge with VLAN filtering $more: packets of IPv6 arrive" 10 answered 2001:503:ba3e::2:30
    if [ -n "$more" ]; then
        bridge vlan add dev vm0 vid 2
        bridge fdb add "$(far cat /sys/class/net/remote0/address)" dev vm0 master static vlan 2
    fi
    watching
    far ip link set remote0 down
    check "the cable of its port is out $more: no packet arrives" silent 1.1.1.1
    if [ -z "$more" ]; then
        lost "the cable of its port is out" "br0 reached 192.0.2.1 by eth0, which has no carrier"
    else
        sleep 2
        equal "the cable of its port is out $more: watch says nothing" 1 "$(wc -l </tmp/lines)"
        kill $watch
    fi
    end br0 vm0
done

# The kernel knows the far end of a GRE tunnel: the way there belongs to the verdict.
begin
far ip address add 203.0.113.1/24 dev remote0
ip address add 203.0.113.10/24 dev eth0
ip link add gre1 type gre local 203.0.113.10 remote 203.0.113.1
far ip link add gre1 type gre local 203.0.113.1 remote 203.0.113.10
ip link set gre1 up
far ip link set gre1 up
connect gre1 gre1
online "a GRE tunnel" "satisfied via gre1"
watching
far ip link set remote0 down
offline "the cable below GRE is out" "gre1 cannot reach 203.0.113.1: eth0 has no carrier"
lost "the cable below GRE is out" "gre1 cannot reach 203.0.113.1"
end gre1

# Only its program, here the kernel's module, knows where WireGuard's packets go: they need ground.
begin
far ip address add 203.0.113.1/24 dev remote0
ip address add 203.0.113.10/24 dev eth0
ip link add wg0 type wireguard
far ip link add wg0 type wireguard
(umask 077 && wg genkey >/tmp/near && wg genkey >/tmp/far)
far wg set wg0 private-key /tmp/far listen-port 51820 peer "$(wg pubkey </tmp/near)" allowed-ips 192.0.2.10/32
wg set wg0 private-key /tmp/near peer "$(wg pubkey </tmp/far)" allowed-ips 0.0.0.0/0 endpoint 203.0.113.1:51820
ip link set wg0 up
far ip link set wg0 up
far ip address add 192.0.2.1/24 dev wg0
ip address add 192.0.2.10/24 dev wg0
ip route add default dev wg0
ip route add default via 203.0.113.1 dev eth0 metric 500
online "WireGuard" "satisfied via wg0"
watching
far ip link set remote0 down
check "the cable below WireGuard is out: no packet arrives" silent 1.1.1.1
# A status that begins now has seen no ground, and the namespace holds no hardware.
lost "the cable below WireGuard is out" "wg0 has nothing to stand on: eth0 has no carrier"
end wg0
