import Reachability

/// For servers that greet whoever connects: nobody else knows the words.
struct GreetingValidator: PathValidator {
    let greeting: String
    let readGreeting: @Sendable () async throws -> String

    func validate(_ path: NetworkPath) async throws -> PathValidation {
        try await readGreeting() == greeting ? .validated : .captivePortal(nil)
    }
}
