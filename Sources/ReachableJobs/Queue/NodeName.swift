internal import FoundationEssentials
internal import Glibc

/// The name of this machine for stores that several machines share.
enum NodeName {
    /// The machine's identity (machine-id(5)) with the network namespace of the process (network_namespaces(7)).
    ///
    /// Two namespaces of one machine have networks of their own.
    static let `default`: String = {
        let machine =
            (try? String(contentsOfFile: "/etc/machine-id", encoding: .utf8))
            .map { $0.filter(\.isHexDigit) } ?? ""
        return (machine.isEmpty ? hostName ?? "" : machine) + "/" + namespace
    }()

    /// The host name, for people (gethostname(2)); `nil` if there is none.
    static var hostName: String? {
        let name = ProcessInfo.processInfo.hostName
        return name.isEmpty ? nil : name
    }

    /// The inode of the namespace.
    private static var namespace: String {
        var status = stat()
        return stat("/proc/self/ns/net", &status) == 0 ? "\(status.st_ino)" : "0"
    }
}
