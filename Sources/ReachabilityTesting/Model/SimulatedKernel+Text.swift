internal import Reachability

extension SimulatedKernel {
    /// Reads `address` or `address/length`.
    func parseAddress(_ text: String, for operation: String) throws(SimulationError) -> (address: IPAddress, length: Int) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = parts.first.flatMap({ IPAddress(String($0)) }) else {
            throw SimulationError(operation, "'\(text)' is no address such as 192.0.2.10/24 or 2001:db8::10/64")
        }
        guard parts.count == 2 else { return (address, address.family.bitWidth) }
        guard parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let length = Int(parts[1]),
            length <= address.family.bitWidth
        else {
            throw SimulationError(operation, "the prefix length '\(parts[1])' is no number from 0 to \(address.family.bitWidth)")
        }
        return (address, length)
    }

    /// Reads `default` or a prefix.
    func parsePrefix(
        _ text: String, family: IPAddress.Family, for operation: String
    ) throws(SimulationError) -> IPPrefix {
        if text == "default" { return .all(family) }
        let (address, length) = try parseAddress(text, for: operation)
        let prefix = IPPrefix(address, length: length)
        guard prefix.address == address else {
            throw SimulationError(operation, "'\(text)' has bits beyond its length; the prefix is \(prefix) (EINVAL)")
        }
        return prefix
    }
}
