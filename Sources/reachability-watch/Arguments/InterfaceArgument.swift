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
        guard Self.length(name) <= Self.longest else {
            throw InvalidArgument("the name of an interface has at most \(Self.longest) bytes; `ip link` lists those that exist")
        }
    }

    /// IFNAMSIZ without the final zero byte (netdevice(7)).
    private static let longest = 15

    /// The bytes of a name that is encoded as the library encodes names.
    private static func length(_ name: String) -> Int {
        let parts = name.split(separator: "\\x", omittingEmptySubsequences: false)
        let escapes = parts.dropFirst().count { $0.utf8.prefix(2).count(where: \.isHexadecimal) == 2 }
        return name.utf8.count - 3 * escapes
    }

    private static func isRefused(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: ":") || byte == 0x20 || (9...13).contains(byte)
    }
}

extension UInt8 {
    fileprivate var isHexadecimal: Bool { Unicode.Scalar(self).properties.isASCIIHexDigit }
}
