/// A block of addresses, such as `192.0.2.0/24`: what a route leads to.
public struct IPPrefix: Hashable, Sendable, CustomStringConvertible {
    /// The first address of the block; bits beyond ``length`` are zero.
    public let address: IPAddress
    /// How many leading bits the block's addresses share: 0 for all of the family.
    public let length: Int

    /// Makes the block that contains `address`.
    ///
    /// The length is clamped to the family's width.
    public init(_ address: IPAddress, length: Int) {
        let length = min(max(length, 0), address.family.bitWidth)
        self.length = length
        let free = UInt128(address.family.bitWidth - length)
        self.address = IPAddress(family: address.family, value: free == 128 ? 0 : (address.value >> free) << free)
    }

    /// All addresses of a family: the destination of a default route.
    public static func all(_ family: IPAddress.Family) -> IPPrefix {
        IPPrefix(IPAddress(family: family, value: 0), length: 0)
    }

    /// Whether an address lies in the block.
    ///
    /// Addresses of the other family never do.
    public func contains(_ other: IPAddress) -> Bool {
        guard other.family == address.family else { return false }
        let free = UInt128(address.family.bitWidth - length)
        return free == 128 || (other.value ^ address.value) >> free == 0
    }

    /// The usual text, such as `2001:db8::/32`; `default` for a block of length 0.
    public var description: String { length == 0 ? "default" : "\(address)/\(length)" }
}
