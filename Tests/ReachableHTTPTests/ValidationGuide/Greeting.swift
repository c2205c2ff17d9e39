import Reachability

/// For servers that greet every client: no portal knows the greeting.
struct GreetingValidator: PathValidator {
    let greeting: String
    let readGreeting: @Sendable () async throws -> String

    func validate(_ path: NetworkPath) async throws -> PathValidation {
        try await readGreeting() == greeting ? .validated : .captivePortal(nil)
    }
}
