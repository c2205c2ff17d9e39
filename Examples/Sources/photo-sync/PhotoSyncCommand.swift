import ArgumentParser
import Foundation
import Reachability
import ReachableRetry
import SyncEngine

/// The command `photo-sync`.
@main struct PhotoSyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "photo-sync",
        abstract: "Stores the photos of a folder on a server, as soon as there is a network and a login.",
        discussion: """
            The token file is the login: it counts while the server accepts the token. Photos above a megabyte wait for a network
            that is not a mobile one, and yield to smaller ones. photo-sync writes a line for each event.

            EXAMPLES
              photo-sync ~/photos --to https://photos.example.org/ --token ~/.photos-token

            EXIT CODES
              0   the server has all photos
              1   some photos were not stored
              64  usage
            """)

    @Argument(help: "The folder.", transform: URL.init(fileURLWithPath:))
    var folder: URL

    @Option(help: ArgumentHelp("The server.", valueName: "url"), transform: HTTPPhotoServer.url)
    var to: URL

    @Option(help: ArgumentHelp("The file with the token.", valueName: "file"), transform: URL.init(fileURLWithPath:))
    var token: URL

    func run() async throws {
        let photos = try PhotoFolder(folder).photos()
        let monitor = ReachabilityMonitor.shared
        let bus = RetryBus(monitor)
        let login = Login()
        let scope = Scope.host(to.host() ?? "")
        let engine = SyncEngine(
            server: HTTPPhotoServer(url: to, folder: folder), login: login, unmetered: monitor.unmetered(to: scope), bus: bus,
            policy: .photos.errno(for: HTTPPhotoServer.systemError), scope: scope)

        let printer = EventPrinter(bus)
        async let printing: Void = printer.run()
        let following = Task { [token] in await TokenFile(token).follow(for: login) }
        defer { following.cancel() }
        let report = try await engine.sync(photos)
        // This also ends the events.
        await bus.shutdown(drain: nil)
        await printing

        print("\(photos.count) photos, \(report.stored.count) stored now, \(report.failures.count) not")
        if !report.failures.isEmpty { throw ExitCode(1) }
    }
}
