public import Reachability
public import ReachableRetry

/// Stores photos on a server that lacks them.
public struct SyncEngine: Sendable {
    /// The result of a synchronization.
    public struct Report: Sendable {
        /// The names of the photos that were stored.
        public var stored: Set<String> = []
        /// The errors of the other photos, by name.
        public var failures: [String: any Error] = [:]
    }

    private let server: any PhotoServer
    private let login: Login
    private let unmetered: Condition
    private let bus: RetryBus
    private let policy: RetryPolicy
    private let scope: Scope

    /// The size in bytes above which photos wait for an unmetered network and yield to smaller photos.
    public static let largeSize = 1_000_000

    /// Makes an engine.
    ///
    /// - Parameters:
    ///   - server: The destination of the photos.
    ///   - login: The login that the server requires.
    ///   - unmetered: The condition for large photos.
    ///   - bus: The bus that runs the jobs.
    ///   - policy: The retry policy of each request.
    ///   - scope: The destination that must be reachable.
    public init(
        server: any PhotoServer, login: Login, unmetered: Condition, bus: RetryBus, policy: RetryPolicy = .photos,
        scope: Scope = .internet
    ) {
        (self.server, self.login, self.unmetered) = (server, login, unmetered)
        (self.bus, self.policy, self.scope) = (bus, policy, scope)
    }

    /// Stores the photos that the server lacks, and waits as long as that takes.
    ///
    /// - Throws: The error of the request for the list of photos; `CancellationError`.
    public func sync(_ photos: [Photo]) async throws -> Report {
        let present = try await bus.retry(
            policy, to: scope,
            options: JobOptions(destination: "photos", when: [login.condition], priority: .interactive, id: "list")
        ) { _ in
            try await login.perform { token in try await server.names(token: token) }
        }
        return try await withThrowingTaskGroup { group in
            for photo in photos where !present.contains(photo.name) {
                group.addTask { (photo.name, try await store(photo)) }
            }
            var report = Report()
            for try await (name, failure) in group {
                if let failure { report.failures[name] = failure } else { report.stored.insert(name) }
            }
            return report
        }
    }

    /// Stores a photo; returns the error if that failed.
    private func store(_ photo: Photo) async throws -> (any Error)? {
        let isLarge = photo.size > Self.largeSize
        do {
            try await bus.retry(
                policy, to: scope,
                options: JobOptions(
                    destination: "photos", when: [login.condition] + (isLarge ? [unmetered] : []),
                    priority: isLarge ? .bulk : .normal, id: JobID(photo.name))
            ) { _ in
                try await login.perform { token in try await server.store(photo, token: token) }
            }
            return nil
        } catch let error as CancellationError {
            throw error
        } catch {
            return error
        }
    }
}

extension RetryPolicy {
    /// The policy for photos: delays from 500 ms, doubled up to 60 s, and at most ten charged attempts.
    ///
    /// An attempt is interrupted after 2 s without the network, the login or the unmetered path, and starts again when all are
    /// back.
    public static let photos = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(60)).jitter(.full))
        .giveUpAfter(maxAttempts: 10)
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
        .classify { error in
            guard let refusal = error as? Refusal else { return nil }
            switch refusal.status {
            case 401: return .transient  // a login may follow
            case 429, 503: return .overload(retryAfter: refusal.retryAfter)
            case 408, 500...: return .server
            default: return .request
            }
        }
}
