public import Reachability

/// Whether somebody is logged in, as a condition that jobs wait for.
///
/// An actor, so that the condition is set in the order in which things happened.
public actor Login {
    private let source = ConditionSource("logged in", isSatisfied: false)
    private var token: String?
    /// What the server does not take any more.
    private var rejected: String?

    /// Satisfied while there is a token that the server has not rejected.
    public nonisolated var condition: Condition { source.condition }

    /// Makes a login of nobody.
    public init() {}

    /// Somebody has logged in, or out if it is `nil`.
    public func use(_ token: String?) {
        self.token = token
        update()
    }

    /// Makes a request as whoever is logged in.
    ///
    /// A token that the server rejects is not used again: the login is over until there is another one.
    ///
    /// - Throws: What the request throws; ``Refusal`` with status 401 if nobody is logged in.
    nonisolated func perform<Value>(_ request: (String) async throws -> Value) async throws -> Value {
        guard let token = await token else { throw Refusal(status: 401) }
        do {
            return try await request(token)
        } catch let refusal as Refusal where refusal.status == 401 {
            await reject(token)
            throw refusal
        }
    }

    private func reject(_ token: String) {
        rejected = token
        update()
    }

    private func update() { source.set(token != nil && token != rejected) }
}
