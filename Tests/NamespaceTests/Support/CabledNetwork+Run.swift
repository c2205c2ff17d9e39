import Foundation

/// What tests of `reachability-watch run` need.
extension CabledNetwork {
    /// A machine that is online.
    static func online() async throws -> CabledNetwork {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        return network
    }

    /// Starts `reachability-watch run` in the machine, without its messages and without a terminal; what the command writes comes
    /// line by line.
    func run(_ words: String...) throws -> Child {
        try Child([WatchCommand.path, "run", "--netns", near.name, "--quiet"] + words, hasTerminal: false)
    }

    /// The path of a file by which a test and a command meet.
    func marker(_ name: String) -> String {
        FileManager.default.temporaryDirectory.appendingPathComponent("\(near.name)-\(name)").path
    }
}
