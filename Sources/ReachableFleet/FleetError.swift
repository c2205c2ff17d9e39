/// A failure of a fleet's member.
public struct FleetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sort of failure.
    ///
    /// More may be added.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a code from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The text is no name of a site, node or trigger.
        public static let invalidName = Code(rawValue: "invalidName")
        /// The name has a meaning of its own in topics.
        public static let reservedName = Code(rawValue: "reservedName")
        /// There is no connection to the broker.
        public static let notConnected = Code(rawValue: "notConnected")
        /// The broker's address, or its combination of files, makes no sense.
        public static let invalidBroker = Code(rawValue: "invalidBroker")
        /// The broker was not reached, or does not answer.
        public static let unreachable = Code(rawValue: "unreachable")
        /// The broker refuses this client: its name, password or certificate, or what it wants to read.
        public static let refused = Code(rawValue: "refused")
        /// No encrypted connection was made: the broker's certificate is not trusted, or the broker does not trust this one.
        public static let notSecure = Code(rawValue: "notSecure")
        /// The broker takes this member's words or requests, and shows them to no one.
        public static let notHeard = Code(rawValue: "notHeard")
        /// A file that the connection needs cannot be used.
        public static let unusableFile = Code(rawValue: "unusableFile")
        /// The connection was lost.
        public static let connectionLost = Code(rawValue: "connectionLost")
    }

    /// The sort of failure.
    public var code: Code
    /// The name or request that failed; for failures of the connection the whole sentence.
    public var subject: String

    /// Makes an error.
    public init(_ code: Code, subject: String) {
        (self.code, self.subject) = (code, subject)
    }

    /// The cause and the remedy; never a password.
    public var description: String {
        switch code {
        case .invalidName:
            "\(subject.debugDescription) is not a name; next: use 1 to 64 characters of A-Z a-z 0-9 . _ -"
        case .reservedName: "\(subject) is reserved; next: choose another name for the node"
        case .notConnected: "\(subject) was not sent without a broker; next: try again when the fleet is connected"
        default: subject
        }
    }

    /// True if only a person can end the failure: it is tried again rarely.
    package var needsPerson: Bool { code == .refused || code == .notSecure || code == .unusableFile }
}
