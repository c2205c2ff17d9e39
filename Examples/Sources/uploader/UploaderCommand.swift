import ArgumentParser
import Foundation
import Logging
import Reachability
import ReachableRetry
import ServiceLifecycle
import UnixSignals

/// The command `uploader`.
@main struct UploaderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uploader",
        abstract: "Uploads the files of a directory, and waits for the network while that is away.",
        discussion: """
            Each file is PUT below the URL by its name. It stays in the outbox until the server has taken it, and is then moved to
            the directory for what was sent; so a program that was stopped goes on where it was. Hidden files and directories are
            left alone: write a file under a hidden name, and rename it when it is whole.

            It writes a line for each file that was sent, and its log to standard error.

            EXAMPLES
              uploader ~/outbox --to https://inbox.example.org/
              uploader ~/outbox --to http://127.0.0.1:8080/ --once --deadline 1h

            EXIT CODES
              0   it was told to stop, or with --once, the outbox is empty
              1   with --once, files are left
              64  usage
            """)

    @Argument(help: "The directory whose files are uploaded.", transform: URL.init(fileURLWithPath:))
    var outbox: URL

    @Option(help: ArgumentHelp("Where to.", valueName: "url"), transform: serverURL)
    var to: URL

    @Option(
        help: ArgumentHelp(
            "Where files go that were sent, on the same file system; by default 'sent' within the outbox.", valueName: "directory"),
        transform: URL.init(fileURLWithPath:))
    var sent: URL?

    @Option(
        help: ArgumentHelp("How often to look for new files, such as 500ms, 2s or 5m.", valueName: "duration"), transform: duration)
    var every = Duration.seconds(2)

    @Option(help: ArgumentHelp("Give up a file after this time; waiting counts.", valueName: "duration"), transform: duration)
    var deadline: Duration?

    @Flag(help: "Upload what is there, and end.")
    var once = false

    @Flag(name: .shortAndLong, help: "Log also what is waited for.")
    var verbose = false

    func run() async throws {
        let logger = logger
        let monitor = ReachabilityMonitor(configuration: .logged(by: logger))
        let bus = RetryBus(monitor, configuration: .logged(by: logger))
        let outbox = try Outbox(outbox, sent: sent)
        let upload = Upload(server: to, outbox: outbox, policy: .upload.giveUpAfter(elapsed: deadline), bus: bus)
        let queue = UploadQueue(upload, monitor: monitor, interval: once ? nil : every, logger: logger)

        var configuration = ServiceGroupConfiguration(
            services: [
                .init(service: monitor),
                .init(service: queue, successTerminationBehavior: .gracefullyShutdownGroup),
                // The last is shut down first: it ends the jobs that the queue waits for.
                .init(service: bus),
            ],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        // What is on its way may arrive; what takes longer is uploaded anew the next time.
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
    /// Tells in the log when the network goes and comes.
    fileprivate static func logged(by logger: Logger) -> Self {
        var configuration = Self()
        configuration.logger = logger
        return configuration
    }
}

extension RetryBus.Configuration {
    /// Tells in the log which attempts failed, and runs few at a time: a link is not faster for being shared by many.
    fileprivate static func logged(by logger: Logger) -> Self {
        var configuration = Self()
        configuration.logger = logger
        configuration.maxConcurrent = 4
        return configuration
    }
}
