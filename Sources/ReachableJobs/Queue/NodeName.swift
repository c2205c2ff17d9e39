internal import FoundationEssentials

/// The name of this machine for stores that several machines share.
enum NodeName {
    /// The machine's identity (machine-id(5)) with the network namespace of the process (network_namespaces(7)).
    ///
    /// Two namespaces of one machine have networks of their own.
    static let `default`: String = {
        let machine = Machine.text(of: "/etc/machine-id")?.filter(\.isHexDigit) ?? ""
        return (machine.isEmpty ? hostName ?? "" : machine) + "/" + Machine.namespace("net")
    }()

    /// The host name, for people (gethostname(2)); `nil` if there is none.
    static var hostName: String? {
        let name = ProcessInfo.processInfo.hostName
        return name.isEmpty ? nil : name
    }
}
