internal import CNetlink
internal import Glibc

extension NetworkInterface {
    /// An interface without its addresses, from a link message.
    ///
    /// - Parameter devices: What is known about the hardware of the machine that sent the message; `nil` if it is not this machine.
    init(_ link: cnl_link, devices: DeviceTypes? = .shared) {
        let name = withUnsafeBytes(of: link.name) { $0.prefix { $0 != 0 } + [] }
        let kind = withUnsafeBytes(of: link.kind) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        let address = withUnsafeBytes(of: link.hardware_address) { $0.prefix(Int(link.hardware_address_length)) + [] }
        let device = DeviceTypes.Device(index: link.index, name: name, hardwareAddress: address)
        self.init(
            index: link.index, name: InterfaceName.text(name),
            kind: Kind(kind: kind, hardwareType: UInt32(link.hardware_type), device, devices), isUp: link.flags & CNL_LINK_UP != 0,
            hasCarrier: link.flags & CNL_LINK_LOWER_UP != 0,
            isPointToPoint: link.flags & CNL_LINK_POINT_TO_POINT != 0,
            operationalState: OperationalState(rawValue: link.operational_state) ?? .unknown,
            carrierChanges: link.carrier_changes)
    }
}

/// Interface names as text: the kernel allows any byte but `/`, `:`, NUL and white space.
package enum InterfaceName {
    /// The name as a string; bytes that are not UTF-8, and backslashes, become `\xNN`, so that different names stay different.
    package static func text(_ bytes: some Collection<UInt8>) -> String {
        let backslash = UInt8(ascii: "\\")
        if !bytes.contains(backslash), let text = String(validating: bytes, as: UTF8.self) { return text }
        var text = ""
        var rest = Array(bytes)[...]
        while let first = rest.first {
            // The longest character that starts here: UTF-8 has at most four bytes (RFC 3629).
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
