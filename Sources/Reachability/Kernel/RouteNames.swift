internal import CNetlink

/// Names for the numbers of routes and links, as ip(8) prints them.
///
/// Those of tables and protocols come from iproute2's files (`/etc/iproute2`, `/usr/share/iproute2`), read when the first one is
/// needed. Files may hold anything: a name's bytes are encoded as in ``NetworkInterface/name``. Escape it before it reaches a
/// terminal. Safe to use from any thread.
package enum RouteNames {
    /// Returns the name of a routing table, such as `main`; `nil` if it has none.
    package static func table(_ number: UInt32) -> String? { text { cnl_table_name(number, $0) } }

    /// Returns the name of a routing protocol (RTPROT_*), such as `dhcp`; `nil` if it has none.
    package static func routingProtocol(_ number: UInt8) -> String? { text { cnl_protocol_name(number, $0) } }

    /// Returns the name of a route's scope (RT_SCOPE_*), such as `link`; `nil` if it has none.
    package static func scope(_ number: UInt8) -> String? { text { cnl_scope_name(number, $0) } }

    /// Returns the name of an operational state (IF_OPER_*), such as `lowerlayerdown`; `nil` if it has none.
    package static func operationalState(_ number: UInt8) -> String? { text { cnl_state_name(number, $0) } }

    private static func text(_ put: (UnsafeMutablePointer<CChar>) -> Bool) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(CNL_ROUTE_NAME_SIZE)) { buffer in
            buffer.initialize(repeating: 0)
            guard let start = buffer.baseAddress, put(start) else { return nil }
            return InterfaceName.text(UnsafeRawBufferPointer(buffer).prefix { $0 != 0 })
        }
    }
}
