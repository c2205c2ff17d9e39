import ArgumentParser
import CommandKit
import Glibc
import Reachability
import ReachableJobs
import ReachableRetry

/// The option that names the store.
struct StoreOption: ParsableArguments {
    @Option(
        name: .customLong("store"),
        help: ArgumentHelp(
            "The file of the queue. Default: $XDG_STATE_HOME/reachability-watch/queue.db, or below ~/.local/state.",
            valueName: "path"),
        completion: .file())
    var path: String?

    func validate() throws {
        if path == "" { throw ValidationError("--store is empty; next: name a file") }
    }

    /// Opens the store; creates it if it is missing and `isCreated`.
    func open(creating isCreated: Bool = true) throws(QueueFailure) -> QueueStore {
        let path = if let path { path } else { try Self.defaultPath() }
        return try QueueStore(path: path, creating: isCreated)
    }

    /// The file for this user.
    static func defaultPath() throws(QueueFailure) -> String {
        // A relative path is invalid (XDG Base Directory Specification).
        if let state = Program.environment("XDG_STATE_HOME"), state.hasPrefix("/") { return "\(state)/reachability-watch/queue.db" }
        if let home = Program.environment("HOME"), home.hasPrefix("/") {
            return "\(home)/.local/state/reachability-watch/queue.db"
        }
        throw QueueFailure(.usage, "neither XDG_STATE_HOME nor HOME is set; next: name the file with --store")
    }
}

/// A failure of a queue command, with its exit status.
struct QueueFailure: Error {
    var status: ExitStatus
    var message: String

    init(_ status: ExitStatus, _ message: String) { (self.status, self.message) = (status, message) }

    init(_ error: JobStoreError) {
        message = error.description
        status =
            switch error.code {
            case .foreign, .newerSchema, .corrupt, .otherDatabase: .invalidData
            case .insecure: .notPermitted
            case .readOnly, .networkFileSystem: .cannotCreate
            case .tooLarge: .usage
            case .diskFull, .inputOutput: .outputFailed
            default: .noInput
            }
    }

    init(_ error: any Error) {
        switch error {
        case let failure as QueueFailure: self = failure
        case let error as JobStoreError: self.init(error)
        case let error as InvalidArgument: self.init(.usage, error.description)
        default: self.init(.outputFailed, "\(error)")
        }
    }
}

/// The store of the commands, and the directory of their output beside it.
struct QueueStore: Sendable {
    let jobs: any JobStore
    /// The descriptor whose locks prove that this process lives; `nil` if the store has none.
    let lock: Int32?
    let output: OutputDirectory

    init(_ jobs: any JobStore, lock: Int32? = nil, output: OutputDirectory) {
        (self.jobs, self.lock, self.output) = (jobs, lock, output)
    }

    /// Opens a store.
    ///
    /// - Parameter isCreated: False to fail if the file is missing.
    init(path: String, creating isCreated: Bool) throws(QueueFailure) {
        guard isCreated || access(path, F_OK) == 0 else {
            throw QueueFailure(
                .noInput, "there is no queue at \(quotation(path)); next: add a command, or name a store with --store")
        }
        #if SQLite
        if isCreated { Self.createParents(of: path) }
        do {
            let store = try SQLiteStore(path: path)
            self.init(store, lock: store.workerLock, output: OutputDirectory(path: path + ".output"))
        } catch {
            throw QueueFailure(error)
        }
        #else
        throw QueueFailure(
            .unavailable, "this build has no SQLite and cannot keep a queue; next: build it with `swift build --traits SQLite`")
        #endif
    }

    /// Creates the directories above a store's own one, which the store creates (mkdir -p).
    ///
    /// Errors are left to the store, which reports them.
    private static func createParents(of path: String) {
        let parts = path.split(separator: "/", omittingEmptySubsequences: true).dropLast(2)
        var directory = path.hasPrefix("/") ? "" : "."
        for part in parts {
            directory += "/\(part)"
            mkdir(directory, 0o700)
        }
    }

    /// Creates the queue of a command that does not run jobs: without a network.
    func queue() -> JobQueue {
        JobQueue(jobs, bus: RetryBus(ReachabilityMonitor()))
    }

    /// Removes the output of jobs that were pruned.
    func pruneOutput() async {
        let withOutput = output.jobs
        guard !withOutput.isEmpty, let known = try? await jobs.explain(Array(withOutput)) else { return }
        output.prune(keeping: Set(known.compactMap { $0?.id }))
    }
}
