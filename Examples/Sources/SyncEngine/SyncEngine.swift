public import Reachability
public import ReachableJobs
public import ReachableRetry

/// Stores photos on a server, however long that takes and however often the program ends meanwhile.
public struct SyncEngine: Sendable {
    /// The size in bytes above which photos wait for an unmetered network and yield to smaller photos.
    public static let largeSize = 1_000_000

    private let host: String?

    /// Makes an engine, and registers its jobs with a queue.
    ///
    /// - Parameters:
    ///   - queue: The queue, which does not run yet.
    ///   - server: The destination of the photos.
    ///   - login: The login that the server requires.
    ///   - unmetered: The condition for large photos.
    ///   - policy: The retry policy of each photo.
    ///   - host: The host that must be reachable; `nil` waits for the internet.
    public init(
        _ queue: JobQueue, server: any PhotoServer, login: Login, unmetered: Condition, policy: RetryPolicy = .photos,
        host: String? = nil
    ) {
        self.host = host
        let store: @Sendable (Photo, DurableAttempt) async throws -> Void = { photo, attempt in
            try await login.perform { token in try await server.store(photo, key: attempt.idempotencyKey, token: token) }
        }
        queue.registerJob(parameters: StorePhoto.self, policy: policy, conditions: [login.condition]) { job, attempt in
            try await store(job.photo, attempt)
        }
        queue.registerJob(
            parameters: StoreLargePhoto.self, policy: policy, conditions: [login.condition, unmetered]
        ) { job, attempt in
            try await store(job.photo, attempt)
        }
    }

    /// Returns the job that stores a photo.
    ///
    /// Push it with `unique: .replace(photo.name)`: then only the last version is stored.
    public func job(for photo: Photo) -> any JobParameters {
        photo.size > Self.largeSize ? StoreLargePhoto(photo: photo, host: host) : StorePhoto(photo: photo, host: host)
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
