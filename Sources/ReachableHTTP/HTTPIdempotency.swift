/// Why a request may be sent twice.
///
/// More may be added.
public struct HTTPIdempotency: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case method
        case assured
        case generated
        case given(String)
    }

    let kind: Kind

    /// Because of its method, or of a header field `Idempotency-Key` that it has already.
    public static let method = HTTPIdempotency(kind: .method)
    /// Because the caller says so: nothing is added to the request.
    public static let assured = HTTPIdempotency(kind: .assured)
    /// Because of a header field `Idempotency-Key`, by which the server knows it again.
    ///
    /// The key is a random UUID, made once for a job and the same for all of its attempts. A request that has a key keeps it.
    public static let key = HTTPIdempotency(kind: .generated)
    /// Because of a header field `Idempotency-Key` with this value, by which the server knows it again.
    ///
    /// For a key that has to outlive the program.
    public static func key(_ value: String) -> HTTPIdempotency { HTTPIdempotency(kind: .given(value)) }
}
