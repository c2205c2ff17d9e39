#if AsyncHTTPClient
public import AsyncHTTPClient
internal import NIOCore

extension HTTPClient.Configuration {
    /// The same, but for what a client does on its own that a bus does better.
    ///
    /// - A client connects again and again, with delays of its own, until `timeout.connect` is over. It knows nothing of the
    ///   network: it would sleep beside one that is back, and the attempts that it makes are neither counted nor charged. So
    ///   `connectionPool.retryConnectionEstablishment` is off: a connection that fails fails its attempt.
    /// - A client waits for an answer for ever. So `timeout.read` is a minute, as `URLSession` has it, if it was not set.
    ///
    /// ```swift
    /// let client = HTTPClient(configuration: HTTPClient.Configuration().leavingRetriesToBus())
    /// ```
    ///
    /// `HTTPClient.shared` is not made like that. Its requests can be repeated, too, but what it cannot reach costs ten seconds.
    public func leavingRetriesToBus() -> HTTPClient.Configuration {
        var configuration = self
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.read = timeout.read ?? .seconds(60)
        return configuration
    }
}
#endif
