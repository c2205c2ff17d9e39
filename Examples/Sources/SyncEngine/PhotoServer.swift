/// Where the photos go: over HTTP in the program, a fake in tests.
public protocol PhotoServer: Sendable {
    /// The names of the photos that it has.
    func names(token: String) async throws -> Set<String>

    /// Stores a photo; storing it twice is the same as storing it once.
    func store(_ photo: Photo, token: String) async throws
}

/// A server said no.
public struct Refusal: Error, Hashable {
    /// Its status, as HTTP numbers them.
    public var status: Int
    /// How long it wants to be left alone, if it says so.
    public var retryAfter: Duration?

    /// Makes a refusal.
    public init(status: Int, retryAfter: Duration? = nil) { (self.status, self.retryAfter) = (status, retryAfter) }
}

extension Refusal: CustomStringConvertible {
    /// What the server said.
    public var description: String { "status \(status)" + (retryAfter.map { ", and not again before \($0)" } ?? "") }
}
