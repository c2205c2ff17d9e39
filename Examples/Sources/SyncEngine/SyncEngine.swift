public import Reachability
public import ReachableRetry

/// Brings photos to a server that does not have them yet.
public struct SyncEngine: Sendable {
    /// How a synchronization went.
    public struct Report: Sendable {
        /// The names of the photos that were stored.
        public var stored: Set<String> = []
        /// Why others were not, by name.
        public var failures: [String: any Error] = [:]
    }

    private let server: any PhotoServer
    private let login: Login
    private let unmetered: Condition
    private let bus: RetryBus
    private let policy: RetryPolicy
    private let scope: Scope

    /// What is larger waits for a network that costs nothing, and gives way to smaller photos when several may start.
    public static let largeSize = 1_000_000

    /// Makes an engine.
    ///
    /// - Parameters:
    ///   - server: where photos go.
    ///   - login: who they belong to.
    ///   - unmetered: whether large photos may be sent.
    ///   - bus: where all that has to wait waits.
    ///   - policy: when to try again.
    ///   - scope: what has to be reached.
    public init(
        server: any PhotoServer, login: Login, unmetered: Condition, bus: RetryBus, policy: RetryPolicy = .photos,
        scope: Scope = .internet
    ) {
        (self.server, self.login, self.unmetered) = (server, login, unmetered)
        (self.bus, self.policy, self.scope) = (bus, policy, scope)
    }

    /// Stores the photos that the server lacks, and waits for whatever that takes.
    ///
    /// - Throws: Why the server could not be asked what it has; `CancellationError`.
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

    /// Stores a photo; returns why that did not work.
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
