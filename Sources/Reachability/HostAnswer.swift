/// The result of looking up a host's addresses.
public enum HostAnswer: Hashable, Sendable {
    /// The host's addresses.
    case addresses([IPAddress])
    /// There are none, for this reason.
    case failed(NameLookupFailure)

    /// The reason for the failure; `nil` if there are addresses.
    package var failure: NameLookupFailure? {
        if case .failed(let failure) = self { failure } else { nil }
    }
}

/// The reason why the name of a host has no address.
///
/// More may be added.
public struct NameLookupFailure: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The stable name, as in JSON.
    public let rawValue: String
    /// Makes a reason from its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The name does not exist, or has no addresses (EAI_NONAME, EAI_NODATA; getaddrinfo(3)).
    public static let notFound = NameLookupFailure(rawValue: "notFound")
    /// No name server answered in time (EAI_AGAIN).
    public static let noAnswer = NameLookupFailure(rawValue: "noAnswer")
    /// A name server refused, or failed on, the query (EAI_AGAIN at once, EAI_FAIL).
    public static let refused = NameLookupFailure(rawValue: "refused")
    /// The name was not looked up: no interface could carry the answer, or the source looks up no names.
    public static let notAsked = NameLookupFailure(rawValue: "notAsked")

    /// The reason in words, for people.
    public var description: String {
        switch self {
        case .notFound: "the name does not exist"
        case .noAnswer: "no name server answered"
        case .refused: "the name server refused"
        case .notAsked: "the name was not looked up"
        default: rawValue
        }
    }
}
