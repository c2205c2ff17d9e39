/// None, one or both of the address families.
package struct FamilySet: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The set of one family.
    package init(_ family: IPAddress.Family) { rawValue = family == .ipv4 ? 1 : 2 }

    /// Both families.
    package static let all = FamilySet(rawValue: 3)
}
