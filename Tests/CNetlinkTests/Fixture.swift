import Glibc

/// Recorded traffic: each record is 8 bytes of monotonic nanoseconds and 4 bytes of length, little-endian, and a datagram.
struct Fixture {
    let name: String
    let datagrams: [[UInt8]]

    static let names = [
        "addr_add", "addr_del_v6", "addr_flush", "blackhole_default", "bridge_port_carrier", "disable_ipv6", "half_defaults",
        "iface_delete", "mp_v6_del_one_leg", "nh_del_single", "nh_replace", "rename_up", "route_append", "route_replace",
        "rule_add_del",
    ]

    init?(_ name: String) {
        let folder = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        guard let file = fopen("\(folder)/Fixtures/\(name).nl", "rb") else { return nil }
        defer { fclose(file) }
        var datagrams: [[UInt8]] = []
        var header = [UInt8](repeating: 0, count: 12)
        while fread(&header, 1, header.count, file) == header.count {
            let length = header[8...].reversed().reduce(0) { $0 << 8 | Int($1) }
            var datagram = [UInt8](repeating: 0, count: length)
            guard fread(&datagram, 1, length, file) == length else { return nil }
            datagrams.append(datagram)
        }
        self.name = name
        self.datagrams = datagrams
    }
}
