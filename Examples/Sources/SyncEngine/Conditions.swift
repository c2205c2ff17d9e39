public import Reachability

/// A login, as a condition that jobs wait for.
///
/// An actor, so that the condition follows the order of the changes.
public actor Login {
    private let source = ConditionSource("logged in", isSatisfied: false)
    private var token: String?
    /// The token that the server has rejected.
    private var rejected: String?

    /// Satisfied while there is a token that the server has not rejected.
    public nonisolated var condition: Condition { source.condition }

    /// Makes a login without a token.
    public init() {}

    /// Sets the token; `nil` logs out.
    public func use(_ token: String?) {
        self.token = token
        update()
    }

    /// Makes a request with the token.
    ///
    /// A rejected token is not used again: the condition stays unsatisfied until there is another one.
    ///
    /// - Throws: The error of the request; ``Refusal`` with status 401 if there is no token.
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

extension ReachabilityMonitor {
    /// Returns a condition for large transfers: a path that is not through a mobile network.
    ///
    /// It is unsatisfied while offline, too. It follows the path in a task and must not still be satisfied when a mobile
    /// network comes back; for the same reason it uses raw transitions, which report a loss at once.
    public func unmetered(to scope: Scope = .internet) -> Condition {
        Condition(
            "unmetered",
            transitions(to: scope, raw: true).map { $0.current.isSatisfied && $0.current.interface?.kind != .cellular })
    }
}
