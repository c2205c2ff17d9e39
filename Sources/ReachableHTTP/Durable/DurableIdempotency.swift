/// The header `Idempotency-Key` of a durable request, by which a server recognizes repeated attempts.
///
/// More may be added.
public struct DurableIdempotency: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case automatic
        case none
        case job
        case given(String)
    }

    let kind: Kind

    /// The job's key for methods that are not idempotent, such as `POST` and `PATCH`, and no key for others; the default.
    ///
    /// A request that has the header keeps it.
    public static let automatic = DurableIdempotency(kind: .automatic)
    /// No key.
    ///
    /// A request whose method is not idempotent is then repeated only if it was never sent or not carried out. If an
    /// attempt is cut, its job fails with the reason `outcomeUnknown`.
    public static let none = DurableIdempotency(kind: .none)
    /// The job's key, whatever the method is: the same in all attempts, also after crashes and restarts.
    public static let job = DurableIdempotency(kind: .job)
    /// A key of the caller's choice.
    public static func key(_ value: String) -> DurableIdempotency { DurableIdempotency(kind: .given(value)) }
}

extension DurableIdempotency: Codable {
    /// Decodes the name of the rule, or an object with the given key.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: CodingKeys.self) {
            kind = .given(try container.decode(String.self, forKey: .key))
            return
        }
        let container = try decoder.singleValueContainer()
        switch try container.decode(String.self) {
        case "automatic": kind = .automatic
        case "none": kind = .none
        case "job": kind = .job
        default: throw DecodingError.dataCorruptedError(in: container, debugDescription: "the rule for the key is not known")
        }
    }

    /// Encodes the name of the rule, or an object with the given key.
    public func encode(to encoder: any Encoder) throws {
        if case .given(let key) = kind {
            var container = encoder.container(keyedBy: CodingKeys.self)
            return try container.encode(key, forKey: .key)
        }
        var container = encoder.singleValueContainer()
        try container.encode(kind == .automatic ? "automatic" : kind == .none ? "none" : "job")
    }

    private enum CodingKeys: CodingKey { case key }
}
