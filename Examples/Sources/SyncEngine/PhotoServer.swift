/// A version of a photo to store on the server.
public struct Photo: Hashable, Codable, Sendable {
    /// The name, the same here and on the server.
    public var name: String
    /// The size in bytes.
    public var size: Int
    /// The time of the last change, in milliseconds since 1970.
    public var modified: Int64

    /// Makes a photo.
    public init(_ name: String, size: Int = 0, modified: Int64 = 0) {
        (self.name, self.size, self.modified) = (name, size, modified)
    }
}

/// The destination of the photos: an HTTP server in the program, a fake in tests.
public protocol PhotoServer: Sendable {
    /// Stores a photo.
    ///
    /// - Parameters:
    ///   - photo: The photo; storing it twice has the same effect as storing it once.
    ///   - key: The key of the version, the same in all its requests.
    ///   - token: The token of the login.
    func store(_ photo: Photo, key: String, token: String) async throws
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
