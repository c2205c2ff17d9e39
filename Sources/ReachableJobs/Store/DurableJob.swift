public import FoundationEssentials
internal import Glibc
public import ReachableRetry

/// A job as its store keeps it.
public struct DurableJob: Hashable, Sendable, Identifiable {
    /// The stage of a job's life.
    public enum State: String, Hashable, Sendable, CaseIterable, Codable {
        /// Waits for a worker, a delay, the network or an earlier job.
        case available
        /// A worker has claimed it.
        case running
        /// Done.
        case succeeded
        /// Gave up; kept for inspection, and can be retried.
        case failed
        /// Cancelled by its owner.
        case cancelled

        /// True if the job has ended.
        public var isFinal: Bool { self != .available && self != .running }
    }

    /// The counts that decide about further attempts, and survive restarts.
    public struct Counters: Hashable, Sendable {
        /// The number of attempts that have started.
        public var started = 0
        /// The number of attempts that count against the attempt limit.
        public var charged = 0
        /// The number of failures that the network caused.
        public var networkFailures = 0
        /// The number of the last failure for the backoff.
        public var failureIndex = 0
        /// The number of attempts whose process ended while the machine stayed up.
        public var crashes = 0

        /// Creates counters; all zero for a new job.
        public init() {}
    }

    package struct SoftDelay: Hashable, Sendable {
        package var until: StoreInstant
        /// The time of the failure: a later reconnect voids the delay of a network failure.
        package var since: StoreInstant
        package var isNetwork: Bool
    }

    /// The node whose network failed, which leaves the job alone for a while.
    ///
    /// Its own workers leave it alone until ``until``, or until one of them has seen an edge of the scope after ``since``; after
    /// another boot they do not. Workers of other nodes may claim it from ``DurableJob/handOver`` on.
    package struct Avoidance: Hashable, Sendable {
        package var node: String
        /// The identity of its boot (random(4)), on whose clock the times are: CLOCK_BOOTTIME in nanoseconds.
        package var bootID: String
        package var since: Int64
        package var until: Int64
    }

    /// The job's identity, which never changes.
    public var id: DurableJobID
    /// The order of the job among all jobs of the store, assigned in commit order.
    public var position: Int64
    /// The queue.
    public var queue: String
    /// The kind: ``JobParameters/jobName``.
    public var kind: String
    /// The version of the payload's format.
    public var version: Int
    /// The encoded parameters.
    public var payload: Data
    /// The scope to reach, as text such as `internet` or `host=example.org port=443`.
    public var scope: String
    /// The server or resource that the job uses.
    public var destination: String?
    /// The priority that the job was pushed with.
    public var priority: JobPriority
    package var pushed: StoreInstant
    /// The start of the job's life; `nil` if it may start at once.
    package var notBefore: StoreInstant?
    /// The time at which the job gives up.
    package var deadline: StoreInstant?
    /// The key that is unique among unfinished jobs of its queue and kind.
    public var uniqueKey: String?
    /// The key of jobs that run one after the other.
    public var serialKey: String?
    /// True if followers with the same serial key run although this job failed.
    public var continuesAfterFailure: Bool
    /// True if an attempt whose outcome is unknown may be repeated.
    public var isRepeatable: Bool
    /// True if the claim of a started attempt ended without a result: by a crash, a reboot or the end of its worker's lease.
    public var hasUnknownOutcome = false
    /// The key by which a server recognizes repeated attempts; a replaced payload gets a new one.
    public var idempotencyKey: String
    /// The trace context of the caller that pushed the job.
    public var traceContext: [String: String]
    /// The stage of its life.
    public var state: State
    /// True if its cancellation was requested while it was running.
    public var isCancelRequested: Bool
    /// The counts of its attempts.
    public var counters: Counters
    package var softDelay: SoftDelay?
    /// The node that leaves the job alone; `nil` unless its last failure was a network's.
    package var avoidance: Avoidance?
    package var hardUntil: StoreInstant?
    /// The text of the last failure, at most 4 KiB.
    public var lastError: String?
    /// The reason why the job failed for good, such as `attempts` or `deadline`.
    public var failureReason: String?
    /// The wall-clock time of the push, for people.
    public var created: Date
    /// The wall-clock time of the end, for people.
    public var finished: Date?
    /// True if it is available but waits for another job with the same serial or unique key.
    public var isBlocked: Bool

    /// Creates a job that was just pushed.
    package init(_ job: NewJob, position: Int64, now: StoreInstant, created: Date) {
        id = job.id
        self.position = position
        (queue, kind, version, payload) = (job.queue, job.kind, job.version, job.payload)
        (scope, destination, priority) = (job.scope, job.destination, job.priority)
        pushed = now
        notBefore = job.delay.map { now.advanced(by: $0) }
        deadline = job.timeLimit.map { now.advanced(by: $0) }
        (uniqueKey, serialKey) = (job.unique?.key, job.serialKey)
        (continuesAfterFailure, isRepeatable) = (job.continuesAfterFailure, job.isRepeatable)
        (idempotencyKey, traceContext) = (job.idempotencyKey, job.traceContext)
        (state, isCancelRequested, counters) = (.available, false, Counters())
        self.created = created
        isBlocked = false
    }

    /// The time after which a bulk job that was due counts as a normal one.
    package static let ageingTime = Duration.seconds(3600)

    package var ageing: StoreInstant { (notBefore ?? pushed).advanced(by: Self.ageingTime) }

    /// The time from which other nodes may take the job over from the one whose network failed: 0.5 s after the failure, doubling
    /// with the network failures to 5 s; `nil` unless its last failure was a network's.
    package var handOver: StoreInstant? {
        guard avoidance != nil, let since = softDelay?.since else { return nil }
        return since.advanced(by: min(.seconds(5), .milliseconds(500) * (1 << min(4, max(0, counters.networkFailures - 1)))))
    }
}

/// The identity of a durable job: 128 bits, the first 48 of which are the milliseconds since 1970 at its creation.
///
/// Identities order nothing: ``DurableJob/position`` does. The text form has 32 hexadecimal digits.
public struct DurableJobID: Hashable, Sendable, LosslessStringConvertible, Codable {
    let high: UInt64
    let low: UInt64

    /// Creates an identity from the wall-clock time and random bits.
    package init(milliseconds: UInt64, using generator: inout some RandomNumberGenerator) {
        high = milliseconds << 16 | UInt64(UInt16.random(in: 0 ... .max, using: &generator))
        low = UInt64.random(in: 0 ... .max, using: &generator)
    }

    /// Creates a new identity.
    public init() {
        let milliseconds = max(0, Date().timeIntervalSince1970 * 1000)
        // One system call for both words.
        var random: (UInt64, UInt64) = (0, 0)
        if getentropy(&random, 16) != 0 {
            var generator = SystemRandomNumberGenerator()
            random = (generator.next(), generator.next())
        }
        self.init(high: UInt64(milliseconds) << 16 | random.0 & 0xffff, low: random.1)
    }

    init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

    /// Reads the text form; `nil` unless it has exactly 32 hexadecimal digits.
    public init?(_ text: String) {
        guard text.utf8.count == 32 else { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        for byte in text.utf8 {
            guard let digit = Character(UnicodeScalar(byte)).hexDigitValue else { return nil }
            (high, low) = (high << 4 | low >> 60, low << 4 | UInt64(digit))
        }
        (self.high, self.low) = (high, low)
    }

    /// 32 hexadecimal digits.
    public var description: String {
        String(unsafeUninitializedCapacity: 32) { text in
            for index in 0..<16 {
                let shift = UInt64(60 - 4 * index)
                text.initializeElement(at: index, to: Self.digits[Int(high >> shift & 15)])
                text.initializeElement(at: index + 16, to: Self.digits[Int(low >> shift & 15)])
            }
            return 32
        }
    }

    /// Decodes the text form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let id = DurableJobID(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a job's id has 32 hexadecimal digits")
        }
        self = id
    }

    /// Encodes the text form.
    public func encode(to encoder: any Encoder) throws { try description.encode(to: encoder) }

    private static let digits = Array("0123456789abcdef".utf8)
}

/// A job to be pushed: its properties are those of ``DurableJob``, with times that begin at the push.
package struct NewJob: Sendable {
    /// The job's identity; the answer may name another one (see ``PushReceipt``).
    package var id: DurableJobID
    package var queue: String
    package var kind: String
    package var version: Int
    package var payload: Data
    /// The scope to reach, in the text form of ``ScopeText``.
    package var scope = "internet"
    package var destination: String?
    package var priority = JobPriority.normal
    package var delay: Duration?
    package var timeLimit: Duration?
    package var unique: JobQueue.Unique?
    package var serialKey: String?
    package var continuesAfterFailure = false
    package var isRepeatable = true
    package var idempotencyKey: String
    package var traceContext: [String: String] = [:]

    package init(id: DurableJobID = DurableJobID(), queue: String, kind: String, version: Int = 1, payload: Data) {
        (self.id, self.queue, self.kind, self.version, self.payload) = (id, queue, kind, version, payload)
        idempotencyKey = id.description
    }
}

extension JobQueue {
    /// The rule for a job whose unique key an unfinished job of the same queue and kind has already.
    public enum Unique: Hashable, Sendable {
        /// Keeps the job that is there, and adds none.
        case keep(String)
        /// Replaces payload and times of the job that is there; if that has started, adds one successor, which later ones replace.
        case replace(String)
        /// Adds the job behind the one that is there.
        case append(String)

        /// The key.
        public var key: String { parts.key }

        var parts: (rule: String, key: String) {
            switch self {
            case .keep(let key): ("keep", key)
            case .replace(let key): ("replace", key)
            case .append(let key): ("append", key)
            }
        }
    }
}
