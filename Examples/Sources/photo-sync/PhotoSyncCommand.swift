import ArgumentParser
import Foundation
import Reachability
import ReachableJobs
import ReachableRetry
import SyncEngine

/// The command `photo-sync`.
@main struct PhotoSyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "photo-sync",
        abstract: "Stores the photos of a folder on a server, as soon as there is a network and a login.",
        discussion: """
            The token file is the login: it counts while the server accepts the token. Photos above a megabyte wait for a network
            that is not a mobile one, and yield to smaller ones. Accepted photos are kept in a database: when photo-sync is killed,
            the next run continues. It writes a line for each event.

            EXAMPLES
              photo-sync ~/photos --to https://photos.example.org/ --token ~/.photos-token

            EXIT CODES
              0   the server has all photos of the folder
              1   some photos were not stored
              64  usage
            """)

    @Argument(help: "The folder.", transform: URL.init(fileURLWithPath:))
    var folder: URL

    @Option(help: ArgumentHelp("The server.", valueName: "url"), transform: HTTPPhotoServer.url)
    var to: URL

    @Option(help: ArgumentHelp("The file with the token.", valueName: "file"), transform: URL.init(fileURLWithPath:))
    var token: URL

    @Option(
        help: ArgumentHelp("The database; by default '.photo-sync.db' in the folder.", valueName: "file"),
        transform: URL.init(fileURLWithPath:))
    var database: URL?

    func run() async throws {
        let monitor = ReachabilityMonitor.shared
        let bus = RetryBus(monitor)
        let path = (database ?? folder.appendingPathComponent(".photo-sync.db")).path
        let album = try Album(path) { JobQueue($0, bus: bus) }
        let (queue, login, scope) = (album.queue, Login(), Scope.host(to.host() ?? ""))
        let engine = SyncEngine(
            queue, server: HTTPPhotoServer(url: to, folder: folder), login: login, unmetered: monitor.unmetered(to: scope),
            policy: .photos.errno(for: HTTPPhotoServer.systemError), host: to.host())

        let photos = try PhotoFolder(folder).photos()
        let accepted = try album.accept(photos, for: engine)
        say("\(photos.count) photos, \(accepted) accepted now")
        // Another run is another chance.
        for job in try await queue.jobs(matching: JobFilter(states: [.failed])) { try await queue.retry(job.id) }

        let printer = try await EventPrinter(queue, [monitor.condition(for: scope), login.condition])
        let following = Task { [token] in await TokenFile(token).follow(for: login) }
        defer { following.cancel() }
        async let counts = printer.run()
        async let running: Void = queue.run()
        let (stored, failed) = await counts
        await queue.shutdown()
        await running

        say("\(stored) stored now, \(failed) not")
        if failed > 0 { throw ExitCode(1) }
    }
}
