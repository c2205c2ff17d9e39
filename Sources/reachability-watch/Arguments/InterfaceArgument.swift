/// The name of an interface as it is written on the command line, and as this program prints it.
struct InterfaceArgument: Hashable {
    /// The name, encoded as the library encodes names.
    let name: String

    /// Reads the text.
    ///
    /// What the kernel refuses in a name (net/core/dev.c, dev_valid_name) cannot be meant.
    init(_ text: String) throws(InvalidArgument) {
        name = unescapedFromTerminal(text)
        let isValid = !name.isEmpty && name != "." && name != ".." && !name.utf8.contains(where: Self.isRefused)
        guard isValid else { throw InvalidArgument("an interface has a name like eth0; `ip link` lists those that exist") }
    }

    private static func isRefused(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: ":") || byte == 0x20 || (9...13).contains(byte)
    }
}
