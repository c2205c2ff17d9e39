import ArgumentParser
import Foundation
import Logging
import Reachability
import ReachableJobs
import ReachableRetry
import ServiceLifecycle
import UnixSignals

/// The command `uploader`.
@main struct UploaderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uploader",
        abstract: "Uploads the files of a directory and waits for the network while offline.",
        discussion: """
            uploader sends each file with PUT to the URL and the file's name. A file stays in the outbox until the server has stored
            it; then it moves to the directory of sent files. Its job is kept in a database, with its attempts, its delays and its
            idempotency key: a restart continues where it stopped, also after a crash. Hidden files and directories are ignored:
            write a file under a hidden name and rename it when it is complete.

            It writes a line for each sent file, and its log to standard error.

            EXAMPLES
              uploader ~/outbox --to https://inbox.example.org/
              uploader ~/outbox --to http://127.0.0.1:8080/ --once --deadline 1h

            EXIT CODES
              0   stopped by a signal, or with --once, the outbox is empty
              1   with --once, files are left
              64  usage
            """)

    @Argument(help: "The directory of files to upload.", transform: URL.init(fileURLWithPath:))
    var outbox: URL

    @Option(help: ArgumentHelp("The URL of the server.", valueName: "url"), transform: serverURL)
    var to: URL

    @Option(
        help: ArgumentHelp(
            "The directory of sent files, on the same file system; by default 'sent' within the outbox.", valueName: "directory"),
        transform: URL.init(fileURLWithPath:))
    var sent: URL?

    @Option(
        help: ArgumentHelp("The file of the jobs; by default '.jobs.db' within the outbox.", valueName: "file"),
        transform: URL.init(fileURLWithPath:))
    var jobs: URL?

    @Option(
        help: ArgumentHelp("The interval between looks for new files, such as 500ms, 2s or 5m.", valueName: "duration"),
        transform: duration)
    var every = Duration.seconds(2)

    @Option(help: ArgumentHelp("Give up on a file after this time, waiting included.", valueName: "duration"), transform: duration)
    var deadline: Duration?

    @Flag(help: "Upload the present files and exit.")
    var once = false

    @Flag(name: .shortAndLong, help: "Also log why jobs wait.")
    var verbose = false

    func run() async throws {
        let logger = logger
        let monitor = ReachabilityMonitor(configuration: .logged(by: logger))
        let bus = RetryBus(monitor, configuration: .logged(by: logger))
        let directory = self.outbox
        let outbox = try Outbox(directory, sent: sent)
        let store = try SQLiteStore(path: (jobs ?? directory.appendingPathComponent(".jobs.db")).path)
        let queue = JobQueue(store, bus: bus)
        let uploader = Uploader(server: to, outbox: outbox)
        queue.registerJob(parameters: Upload.self, policy: .upload) { upload, attempt in
            guard try await uploader.send(upload.parcel, key: attempt.idempotencyKey) else { return }
            FileHandle.standardOutput.write(Data("sent \(upload.parcel.name)\n".utf8))
        }
        let watcher = OutboxWatcher(
            outbox: outbox, queue: queue, host: to.host() ?? "", deadline: deadline, interval: once ? nil : every, logger: logger)

        var configuration = ServiceGroupConfiguration(
            services: [
                .init(service: monitor),
                .init(service: bus),
                // Shut down before the bus, which its running attempts still need.
                .init(service: queue),
                .init(service: watcher, successTerminationBehavior: .gracefullyShutdownGroup),
            ],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        // Uploads in progress may finish; longer ones are repeated after the next start.
        configuration.maximumGracefulShutdownDuration = .seconds(10)
        try await ServiceGroup(configuration: configuration).run()

        if once, try !outbox.parcels().isEmpty { throw ExitCode(1) }
    }

    private var logger: Logger {
        var logger = Logger(label: "uploader") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = verbose ? .debug : .info
        return logger
    }
}

extension ReachabilityMonitor.Configuration {
    /// Logs when the network is lost and restored.
    fileprivate static func logged(by logger: Logger) -> Self {
        var configuration = Self()
        configuration.logger = logger
        return configuration
    }
}

extension RetryBus.Configuration {
    /// Logs failed attempts, and limits the number of concurrent uploads, which share one link.
    fileprivate static func logged(by logger: Logger) -> Self {
        var configuration = Self()
        configuration.logger = logger
        configuration.maxConcurrent = 4
        return configuration
    }
}

/// Parses a duration: `500ms`, `2s`, `5m`, `1h`.
func duration(_ text: String) throws -> Duration {
    let milliseconds = ["ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000]
    guard let match = text.wholeMatch(of: #/([0-9]{1,9})(ms|s|m|h)/#), let number = Int(match.1), number > 0,
        let unit = milliseconds[String(match.2)]
    else { throw ValidationError("a duration is a number above zero and a unit: 500ms, 2s, 5m or 1h") }
    return .milliseconds(number * unit)
}

/// Parses the URL of a server.
func serverURL(_ text: String) throws -> URL {
    guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host() != nil else {
        throw ValidationError("give a URL such as http://127.0.0.1:8080/")
    }
    return url
}
