/// The response of an attempt.
enum HTTPExchange<Body, Refusal: ErrorResponse> {
    /// The body that the caller wants.
    case value(Body, Refusal.Response)
    /// A response with another status.
    case refusal(Refusal)
}

extension HTTPExchange: Sendable where Body: Sendable {}
