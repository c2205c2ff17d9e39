internal import CNetlink

/// Names for the numbers of routes and links, as ip(8) prints them.
///
/// Names of tables and protocols come from iproute2's files (`/etc/iproute2`, `/usr/share/iproute2`), which are read on first use.
/// Names are arbitrary bytes, encoded as in ``NetworkInterface/name``: escape them before they reach a terminal. Safe to use from
/// any thread.
package enum RouteNames {
    /// Returns the name of a routing table, such as `main`; `nil` if it has none.
    package static func table(_ number: UInt32) -> String? { text { cnl_table_name(number, $0) } }

    /// Returns the name of a routing protocol (RTPROT_*), such as `dhcp`; `nil` if it has none.
    package static func routingProtocol(_ number: UInt8) -> String? { text { cnl_protocol_name(number, $0) } }

    /// Returns the name of a route's scope (RT_SCOPE_*), such as `link`; `nil` if it has none.
    package static func scope(_ number: UInt8) -> String? { text { cnl_scope_name(number, $0) } }

    /// Returns the name of an operational state (IF_OPER_*), such as `lowerlayerdown`; `nil` if it has none.
    package static func operationalState(_ number: UInt8) -> String? { text { cnl_state_name(number, $0) } }

    private static func text(_ write: (UnsafeMutablePointer<CChar>) -> Bool) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(CNL_ROUTE_NAME_SIZE)) { buffer in
            buffer.initialize(repeating: 0)
            guard let start = buffer.baseAddress, write(start) else { return nil }
            return InterfaceName.text(UnsafeRawBufferPointer(buffer).prefix { $0 != 0 })
        }
    }
}

/// Interface names as text.
///
/// The kernel allows any byte except `/`, `:`, NUL and white space.
package enum InterfaceName {
    /// Returns the name as a string.
    ///
    /// Backslashes, and bytes that are not UTF-8, become `\xNN`: different names have different texts.
    package static func text(_ bytes: some Collection<UInt8>) -> String {
        let backslash = UInt8(ascii: "\\")
        if !bytes.contains(backslash), let text = String(validating: bytes, as: UTF8.self) { return text }
        var text = ""
        var rest = Array(bytes)[...]
        while let first = rest.first {
            // The shortest valid prefix is one character; UTF-8 has at most four bytes a character (RFC 3629).
            let length = first == backslash ? nil : (1...4).first { String(validating: rest.prefix($0), as: UTF8.self) != nil }
            if let length, length <= rest.count {
                text += String(decoding: rest.prefix(length), as: UTF8.self)
                rest = rest.dropFirst(length)
            } else {
                let hex = String(first, radix: 16)
                text += "\\x" + (hex.count < 2 ? "0" : "") + hex
                rest = rest.dropFirst()
            }
        }
        return text
    }
}
