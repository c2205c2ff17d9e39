internal import CNetlink
internal import Glibc
internal import Synchronization

extension NetworkInterface.Kind {
    private static let tunnels: Set<String> = [
        "tun", "wireguard", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "ip6tnl", "sit", "vti", "vti6", "xfrm", "ppp", "erspan",
        "geneve", "vxlan",
    ]

    /// Creates a kind from a link's kind (IFLA_INFO_KIND; hardware has none) and hardware type (ARPHRD_*).
    ///
    /// Wi-Fi and USB modems look like Ethernet to rtnetlink; `devices` distinguishes them. The kind is `other` if it cannot.
    init(kind: String, hardwareType: UInt32, _ device: DeviceTypes.Device, _ devices: DeviceTypes?) {
        switch (hardwareType, kind) {
        case (CNL_HARDWARE_LOOPBACK, _): self = .loopback
        case (_, let kind) where Self.tunnels.contains(kind): self = .tunnel
        case (_, "wwan"): self = .cellular
        case (_, let kind) where !kind.isEmpty: self = .virtual
        case (CNL_HARDWARE_ETHERNET, _):
            switch devices?.type(of: device) {
            case nil, "bluetooth": self = .other
            case "wlan": self = .wireless
            case "wwan": self = .cellular
            default: self = .wired
            }
        // Point-to-point hardware types without a kind are tunnels of old drivers (tun, PPP) or modems in raw IP mode.
        case (CNL_HARDWARE_NONE, _), (CNL_HARDWARE_RAWIP, _): self = devices?.type(of: device) == "wwan" ? .cellular : .tunnel
        case (CNL_HARDWARE_PPP, _): self = .tunnel
        default: self = .other
        }
    }
}

/// The device types of hardware interfaces, which rtnetlink lacks, from sysfs (docs/ABI/testing/sysfs-class-net).
///
/// sysfs shows the devices of the network namespace in which it was mounted (sysfs(5)). That may differ from the link's: with
/// `KernelNetwork(networkNamespace:)`, or in a container with the host's /sys. So a device must match the link's name, index and
/// hardware address; otherwise its type is unknown.
///
/// Answers are cached: a flapping cable costs no file access. Safe to use from any thread.
package final class DeviceTypes: Sendable {
    /// The properties that identify a device across network namespaces.
    package struct Device: Hashable, Sendable {
        package var index: UInt32
        /// The name's bytes.
        package var name: [UInt8]
        package var hardwareAddress: [UInt8]

        package init(index: UInt32, name: [UInt8], hardwareAddress: [UInt8]) {
            (self.index, self.name, self.hardwareAddress) = (index, name, hardwareAddress)
        }
    }

    /// The types of this machine's devices.
    package static let shared = DeviceTypes(folder: "/sys/class/net")

    /// The size of the cache, more than a machine has hardware interfaces.
    private static let limit = 256

    private let folder: String
    private let answers = Mutex<[Device: String]>([:])

    /// Creates a reader of a folder like /sys/class/net.
    package init(folder: String) { self.folder = folder }

    /// Returns the type of a device (DEVTYPE), such as `wlan` or `wwan`, empty for plain Ethernet; `nil` if it is unknown.
    ///
    /// Unknown types are not cached: the device may be in the middle of a rename.
    package func type(of device: Device) -> String? {
        if let answer = answers.withLock({ $0[device] }) { return answer }
        guard let answer = read(device) else { return nil }
        answers.withLock { answers in
            if answers.count >= Self.limit { answers = [:] }
            answers[device] = answer
        }
        return answer
    }

    private func read(_ device: Device) -> String? {
        let dot = UInt8(ascii: ".")
        // The kernel allows only such names (net/core/dev.c, dev_valid_name), but a message may hold any bytes.
        let isPlain =
            !device.name.isEmpty && !device.name.contains(UInt8(ascii: "/")) && device.name != [dot] && device.name != [dot, dot]
        guard isPlain, let address = contents("address", of: device), let event = contents("uevent", of: device)
        else { return nil }
        let digits = device.hardwareAddress.map { hexadecimal($0, digits: 2) }.joined(separator: ":")
        let newline = UInt8(ascii: "\n")
        guard address.prefix(while: { $0 != newline }).elementsEqual(digits.utf8) else { return nil }
        let lines = event.split(separator: newline)
        func value(_ key: String) -> ArraySlice<UInt8>? { lines.first { $0.starts(with: key.utf8) }?.dropFirst(key.utf8.count) }
        guard value("INTERFACE=")?.elementsEqual(device.name) == true,
            value("IFINDEX=")?.elementsEqual("\(device.index)".utf8) == true
        else { return nil }
        return value("DEVTYPE=").map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// Returns the contents of a device's file; `nil` if it cannot be read.
    private func contents(_ file: String, of device: Device) -> [UInt8]? {
        let path = folder.utf8 + [UInt8(ascii: "/")] + device.name + "/\(file)".utf8 + [0]
        let descriptor = path.withUnsafeBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { path in
                path.baseAddress.map { open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) } ?? -1
            }
        }
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // A sysfs file is at most one page and read at once (docs/filesystems/sysfs.rst).
        return withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            return count < 0 ? nil : buffer.prefix(count) + []
        }
    }
}
