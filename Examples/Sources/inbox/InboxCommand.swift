import ArgumentParser
import Foundation
import MisbehavingServer

/// The command `inbox`.
@main struct InboxCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inbox",
        abstract: "A server to try the examples with: it stores and lists files.",
        discussion: """
            PUT /NAME stores the body as a file of that name; GET / lists the names, one per line. For tests only: each body is held
            in memory until it is complete.

            EXAMPLES
              inbox /tmp/inbox
              inbox /tmp/inbox --listen 192.0.2.1:80 --token sesame --busy 2
            """)

    @Argument(help: "The directory of the stored files.", transform: URL.init(fileURLWithPath:))
    var directory: URL

    @Option(help: ArgumentHelp("An IPv4 address and a port.", valueName: "address:port"))
    var listen = "127.0.0.1:8080"

    @Option(help: ArgumentHelp("Refuse requests without this bearer token.", valueName: "token"))
    var token: String?

    @Option(help: ArgumentHelp("Refuse this many requests first, with a delay of 1 s.", valueName: "n"))
    var busy = 0

    func run() throws {
        let parts = listen.split(separator: ":")
        guard parts.count == 2, let port = UInt16(parts[1]) else {
            throw ValidationError("--listen takes an address and a port, such as 127.0.0.1:8080")
        }
        let store = try Store(directory, token: token, busy: busy)
        let server = try MisbehavingServer(at: String(parts[0]), port: port, keepsBodies: true) { store.answer($0) }
        say("listens at http://\(parts[0]):\(server.port)/")
        // The server runs on its own threads until a signal ends the process.
        while true { pause() }
    }
}

/// Writes a line at once, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
