/// A photo to store on the server.
public struct Photo: Hashable, Sendable {
    /// The name, the same here and on the server.
    public var name: String
    /// The size in bytes.
    public var size: Int

    /// Makes a photo.
    public init(_ name: String, size: Int = 0) { (self.name, self.size) = (name, size) }
}

/// The destination of the photos: an HTTP server in the program, a fake in tests.
public protocol PhotoServer: Sendable {
    /// Returns the names of the stored photos.
    func names(token: String) async throws -> Set<String>

    /// Stores a photo; storing it twice has the same effect as storing it once.
    func store(_ photo: Photo, token: String) async throws
}

/// The error of a request that the server refused.
public struct Refusal: Error, Hashable {
    /// The HTTP status.
    public var status: Int
    /// The delay that the server orders, if any.
    public var retryAfter: Duration?

    /// Makes a refusal.
    public init(status: Int, retryAfter: Duration? = nil) { (self.status, self.retryAfter) = (status, retryAfter) }
}

extension Refusal: CustomStringConvertible {
    /// The status and the delay.
    public var description: String { "status \(status)" + (retryAfter.map { ", and not again before \($0)" } ?? "") }
}
