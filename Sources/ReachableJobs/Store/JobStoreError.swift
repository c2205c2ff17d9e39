/// An error of a job store.
///
/// Its text says what is wrong and what to do next. It never includes a payload or a password.
public struct JobStoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The name.
        public let rawValue: String
        /// Creates a code from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The queue has as many unfinished jobs as it may have.
        public static let full = Code(rawValue: "full")
        /// A payload is larger than 1 MiB.
        public static let tooLarge = Code(rawValue: "tooLarge")
        /// The store was locked for more than 5 s.
        public static let busy = Code(rawValue: "busy")
        /// No space is left.
        public static let diskFull = Code(rawValue: "diskFull")
        /// The store cannot be written.
        public static let readOnly = Code(rawValue: "readOnly")
        /// The file is damaged.
        public static let corrupt = Code(rawValue: "corrupt")
        /// The file is not a store of jobs.
        public static let foreign = Code(rawValue: "foreign")
        /// A newer version of this library wrote the store.
        public static let newerSchema = Code(rawValue: "newerSchema")
        /// The file is on a network file system, where locks do not hold.
        public static let networkFileSystem = Code(rawValue: "networkFileSystem")
        /// The database is not the store's.
        public static let otherDatabase = Code(rawValue: "otherDatabase")
        /// The database would lose commits in a power failure.
        public static let unsynchronized = Code(rawValue: "unsynchronized")
        /// Other users may write the file.
        public static let insecure = Code(rawValue: "insecure")
        /// The worker is not registered, or its lease has ended.
        public static let unknownWorker = Code(rawValue: "unknownWorker")
        /// The store was closed, or cannot be reached.
        public static let unavailable = Code(rawValue: "unavailable")
        /// Reading or writing failed.
        public static let inputOutput = Code(rawValue: "inputOutput")
    }

    /// The kind of the error.
    public var code: Code
    /// The statement of what is wrong.
    public var message: String
    /// The advice what to do next.
    public var advice: String

    package init(_ code: Code, _ message: String, next advice: String) {
        (self.code, self.message, self.advice) = (code, message, advice)
    }

    /// The message and the advice.
    public var description: String { "\(message); next: \(advice)" }
}

extension JobStoreError {
    /// The error of a push or a retry that a queue has no room for.
    package static func full(queue: String, limit: Int) -> JobStoreError {
        JobStoreError(
            .full, "the queue \(queue) would have more than \(limit) unfinished jobs",
            next: "push again when jobs have ended, or raise the limit")
    }

    /// The error of a job with a payload that is too large; `nil` if all are small enough.
    package static func tooLarge(_ jobs: [NewJob]) -> JobStoreError? {
        jobs.first { $0.payload.count > largestPayload }.map { job in
            JobStoreError(
                .tooLarge, "the payload of a job of kind \(job.kind) has \(job.payload.count) bytes, more than 1 MiB",
                next: "store it in a file, and push the file's name")
        }
    }

    package static func unknown(_ worker: WorkerID) -> JobStoreError {
        JobStoreError(
            .unknownWorker, "worker \(worker.rawValue) is not registered, or its lease has ended",
            next: "end its attempts, and register again")
    }
}
