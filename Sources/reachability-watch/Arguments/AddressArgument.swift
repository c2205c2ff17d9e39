import Reachability

/// A destination as it is written on the command line: `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`.
struct AddressArgument: Hashable {
    /// The address.
    let address: IPAddress
    /// The interface named behind the percent sign.
    let interface: String?

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(String(first)) else {
            throw InvalidArgument("an address is written like 192.0.2.1, 2001:db8::1 or fe80::1%eth0")
        }
        self.address = address
        interface = parts.count == 2 ? try InterfaceArgument(String(parts[1])).name : nil
    }
}
