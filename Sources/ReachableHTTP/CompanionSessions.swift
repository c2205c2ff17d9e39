internal import Foundation
internal import FoundationNetworking
internal import ReachableRetry
internal import Synchronization

/// The rule for a request that must not be sent twice.
struct SendRule: Sendable {
    /// True if the caller knows that it may be sent twice, whatever its method.
    var mayRepeat = false
    /// True if a request that Foundation may send twice is not sent at all.
    var requiresSingleSend = false
}

extension URLSession {
    /// Makes a request by sessions of the library's own, until the receiver has a result.
    ///
    /// On a connection that it reuses, libcurl sends a request again if the connection ends without an answer
    /// (`Curl_retry_request`). A request that must not be sent twice over plain TCP has a session of its own, and with it a new
    /// connection. Over TLS each session would leave descriptors behind (``TaskSession``): there `HTTPClient` makes the request,
    /// with the trait AsyncHTTPClient. Without it the request gets no body for a second time, and shares connections only with
    /// others of its kind, which ask the server to close them. Its head may be repeated, and without a body that is all.
    ///
    /// - Parameters:
    ///   - original: The request.
    ///   - rule: The rule for sending it twice.
    ///   - attempt: The attempt that it belongs to.
    ///   - receiver: The receiver; holds what arrived, also after an error.
    ///   - isRedirected: True if a server has named the request's URL: it may be another's, and gets no headers of the session.
    func run<Receiver: TaskReceiver>(
        _ original: URLRequest, _ rule: SendRule, _ attempt: Attempt, _ receiver: inout Receiver, isRedirected: Bool = false
    ) async throws -> Receiver.Result {
        var request = original
        let isSingle = !rule.mayRepeat && !request.isRepeatable
        if isSingle { request.setHeader("Connection", "close") }
        if let body = request.httpBody, !body.isEmpty { request.attach(UploadStream(.data(body))) }
        if isSingle, request.usesTLS {
            #if AsyncHTTPClient
            if isMadeByClient(request) {
                switch try await makeByClient(request, attempt, &receiver) {
                case .result(let result): return result
                case .redirect(let target): return try await run(target, rule, attempt, &receiver, isRedirected: true)
                }
            }
            #endif
            let error = SingleSendError(method: request.methodName)
            if rule.requiresSingleSend { throw error }
            attempt.warn(error.description)
        }
        while true {
            let session =
                isSingle && !request.usesTLS
                ? TaskSession(configuration)
                : TaskSession.companion(of: self, usesTLS: request.usesTLS, isSingle: isSingle, attempt)
            if !isRedirected { request.addHeaders(session.headers) }
            do {
                return try await session.run(request, &receiver, for: self, isSingle: isSingle)
            } catch let challenge as Challenged {
                request.setHeader("Authorization", challenge.authorization)
            } catch {
                // Its other connections may be as dead.
                if (error as? URLError)?.code == .timedOut || attempt.isCut { session.retire() }
                let explained = (error as? URLError)?.explained ?? error
                throw (request.httpBodyStream as? UploadStream)?.isUnsent == true ? Unsent(error: explained) : explained
            }
        }
    }
}

extension TaskSession {
    private struct Key: Hashable {
        let original: ObjectIdentifier
        let usesTLS: Bool
        let isSingle: Bool
    }

    private struct Companion {
        weak var original: URLSession?
        var session: TaskSession
        /// The epochs of the networks that it was used in.
        var networks: ConnectionEpochs
        var began = ContinuousClock.now
        /// True if its connections may be dead, and the next request needs others.
        var isRetired = false
    }

    private static let companions = Mutex<[Key: Companion]>([:])

    private static let leftBehind =
        "connections over TLS may be dead, and a new session replaces theirs: Foundation keeps 3 descriptors and 0.9 MB of each; "
        + "next: HTTPClient (trait AsyncHTTPClient) keeps nothing"

    /// The shortest time between two sessions over TLS: each leaves descriptors and memory behind.
    private static let leastLifetimeOverTLS: Duration = .seconds(60)

    /// Returns the session that runs the tasks of another one, with the same configuration but no cache.
    ///
    /// It lives as long as the original, which the jobs keep alive: between two jobs it is idle. It is replaced if its connections
    /// may be dead, after a timeout or an edge of the network; over TLS at most once a minute. The original cannot run the tasks
    /// because a delegate cannot be added to it. A companion per configuration would not do: configurations have no equality, and
    /// each `.ephemeral` one has its own cookies. The address of a deallocated session may be reused: an entry counts only while
    /// its weak reference leads to the same session.
    ///
    /// - Parameters:
    ///   - original: The session.
    ///   - usesTLS: True for requests over TLS.
    ///   - isSingle: True for requests that must not be sent twice.
    ///   - attempt: The attempt that needs connections.
    static func companion(of original: URLSession, usesTLS: Bool, isSingle: Bool = false, _ attempt: Attempt) -> TaskSession {
        let key = Key(original: ObjectIdentifier(original), usesTLS: usesTLS, isSingle: isSingle)
        func find(_ companions: inout [Key: Companion]) -> TaskSession? {
            guard companions[key]?.original === original, let known = companions[key]?.session else { return nil }
            let isOld = companions[key]?.networks.isBehind(attempt) == true || companions[key]?.isRetired == true
            let age = companions[key].map { ContinuousClock.now - $0.began } ?? .zero
            return isOld && (!usesTLS || age >= leastLifetimeOverTLS) ? nil : known
        }
        if let known = companions.withLock({ find(&$0) }) { return known }
        let made = TaskSession(original.configuration)
        // Orphans are deallocated here, after the lock is released.
        let (session, orphans, old) = companions.withLock { companions -> (TaskSession, [Companion], Companion?) in
            if let known = find(&companions) { return (known, [], nil) }
            let orphans = companions.values.filter { $0.original == nil }
            companions = companions.filter { $0.value.original != nil }
            let old = companions[key]
            companions[key] = Companion(original: original, session: made, networks: ConnectionEpochs(attempt))
            return (made, orphans, old)
        }
        withExtendedLifetime(orphans) {}
        if usesTLS, old != nil { attempt.warn(leftBehind) }
        return session
    }

    /// Lets later requests use connections that do not exist yet.
    func retire() {
        Self.companions.withLock { companions in
            for key in companions.keys where companions[key]?.session === self { companions[key]?.isRetired = true }
        }
    }
}

/// The epochs of the networks at the first use of a client's connections.
struct ConnectionEpochs: Sendable {
    private var epochs: [Attempt.Network: UInt64] = [:]

    init(_ attempt: Attempt) { _ = isBehind(attempt) }

    /// Returns true if an attempt began after an edge that connections of an earlier one may not have survived.
    mutating func isBehind(_ attempt: Attempt) -> Bool {
        guard let (network, epoch) = attempt.network else { return false }
        guard let first = epochs[network] else {
            epochs[network] = epoch
            return false
        }
        return first < epoch
    }
}

/// The refusal of a request that must be sent once only, and that the client may send twice.
///
/// Thrown before anything is sent, if ``HTTPRequestRetryOptions/requiresSingleSend`` asks for it. On a connection that it reuses,
/// libcurl sends the head of a request again if the connection ends without an answer (`Curl_retry_request`). A body does not
/// follow it: only a server that does not wait for the body can carry out the request twice.
public struct SingleSendError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The method of the request.
    public var method: String

    /// The statement of what is wrong, and the advice what to do next.
    public var description: String {
        "URLSession may send the head of a \(method) twice over TLS; "
            + "next: give it an Idempotency-Key, or set the trait AsyncHTTPClient and no delegate or proxy"
    }
}
