/// A name of a site, a node or a trigger: 1 to 64 characters of `A-Z a-z 0-9 . _ -`.
///
/// Names are parts of MQTT topics, where `/`, `+` and `#` have a meaning (MQTT 3.1.1 §4.7).
public struct FleetName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The longest name, in characters.
    public static let longest = 64

    private let text: String

    /// Creates a name; throws ``FleetError/Code/invalidName`` for an empty text, one above 64 characters, or other characters.
    public init(_ text: String) throws(FleetError) {
        guard Self.isValid(text) else { throw FleetError(.invalidName, subject: text) }
        self.text = text
    }

    /// Returns true if a text is a name.
    static func isValid(_ text: some StringProtocol) -> Bool {
        (1...longest).contains(text.utf8.count) && text.utf8.allSatisfy(isValid)
    }

    private static func isValid(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }

    /// The name.
    public var description: String { text }

    /// Orders by bytes, on every machine the same: all are ASCII.
    public static func < (left: FleetName, right: FleetName) -> Bool { left.text < right.text }
}
