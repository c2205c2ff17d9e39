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
            """
            The file of the queue, or a PostgreSQL database as postgres://user@host/database. Default: \
            $REACHABILITY_QUEUE_STORE, or $XDG_STATE_HOME/reachability-watch/queue.db, or below ~/.local/state.
            """,
            valueName: "path"),
        completion: .file())
    var path: String?

    /// The variable of the environment that names the store where --store is not given.
    private static let variable = "REACHABILITY_QUEUE_STORE"

    /// The value of the variable; an empty one counts as none.
    private var named: String? { Program.environment(Self.variable).flatMap { $0.isEmpty ? nil : $0 } }

    func validate() throws {
        if path == "" { throw ValidationError("--store is empty; next: name a file") }
        if let path {
            try Self.checkPassword(path)
        } else if let named, QueueStore.hasPassword(named) {
            throw ValidationError(
                "\(Self.variable) has a password, which others could read; next: write it to ~/.pgpass, and leave it out there"
            )
        }
    }

    /// Refuses a URL with a password.
    static func checkPassword(_ path: String) throws {
        guard QueueStore.hasPassword(path) else { return }
        throw ValidationError(
            "--store has a password, which all users of this machine could read; next: write it to ~/.pgpass, and leave it out here"
        )
    }

    /// Opens the store; creates it if it is missing and `isCreated`.
    ///
    /// - Parameter bus: The bus that connects to a server.
    func open(creating isCreated: Bool = true, bus: RetryBus? = nil) throws(CommandFailure) -> QueueStore {
        let path = if let path = path ?? named { path } else { try Self.defaultPath() }
        return try QueueStore(path: path, creating: isCreated, bus: bus)
    }

    /// The file for this user.
    static func defaultPath() throws(CommandFailure) -> String { try stateDirectory() + "/queue.db" }

    /// The directory for this user's queues.
    static func stateDirectory() throws(CommandFailure) -> String {
        if let directory = ServePlaces.stateDirectory(Program.environment) { return directory }
        throw CommandFailure(.usage, "neither XDG_STATE_HOME nor HOME is set; next: name the file with --store")
    }
}

extension CommandFailure {
    init(_ error: JobStoreError) {
        let status: ExitStatus =
            switch error.code {
            case .foreign, .newerSchema, .corrupt, .otherDatabase: .invalidData
            case .insecure: .notPermitted
            case .readOnly, .networkFileSystem: .cannotCreate
            case .tooLarge: .usage
            case .diskFull, .inputOutput: .outputFailed
            default: .noInput
            }
        self.init(status, error.description)
    }

    init(_ error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
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
    init(path: String, creating isCreated: Bool, bus: RetryBus? = nil) throws(CommandFailure) {
        if Self.isDatabase(path) {
            self = try Self.onServer(path, creating: isCreated, bus)
            return
        }
        guard isCreated || access(path, F_OK) == 0 else {
            throw CommandFailure(
                .noInput, "there is no queue at \(quotation(path)); next: add a command, or name a store with --store")
        }
        #if SQLite
        if isCreated { Self.createParents(of: path) }
        do {
            let store = try SQLiteStore(path: path)
            self.init(store, lock: store.workerLock, output: OutputDirectory(path: path + ".output"))
        } catch {
            throw CommandFailure(error)
        }
        #else
        throw CommandFailure(
            .unavailable, "this build has no SQLite and cannot keep a queue; next: build it with `swift build --traits SQLite`")
        #endif
    }

    /// True for the URL of a PostgreSQL database.
    static func isDatabase(_ path: String) -> Bool { ["postgres://", "postgresql://"].contains { path.hasPrefix($0) } }

    /// True for a URL of a database with a password.
    static func hasPassword(_ path: String) -> Bool {
        guard isDatabase(path), let start = path.firstRange(of: "://")?.upperBound else { return false }
        let authority = path[start...].prefix { $0 != "/" && $0 != "?" }
        let user = authority.lastIndex(of: "@").map { authority[..<$0] }
        return user?.contains(":") == true || path.contains("password=")
    }

    /// Makes the store of a database; the output of attempts stays on the machine that ran them.
    private static func onServer(_ url: String, creating isCreated: Bool, _ bus: RetryBus?) throws(CommandFailure) -> QueueStore {
        #if PostgreSQL
        let store = PostgreSQLStore(url, bus: bus, installsTables: isCreated)
        let name = store.address.map { $0.isLetter || $0.isNumber || $0 == "." ? $0 : "-" }
        let output = try StoreOption.stateDirectory() + "/" + String(name) + ".output"
        // Of a file in it: the directory itself is made with the first output.
        createParents(of: output + "/file")
        return QueueStore(store, output: OutputDirectory(path: output))
        #else
        throw CommandFailure(
            .unavailable, "this build has no PostgreSQL; next: build it with `swift build --traits Service,PostgreSQL`")
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
