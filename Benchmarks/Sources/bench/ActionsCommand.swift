import ArgumentParser
import CBench
import Glibc

/// The subcommand `actions`.
struct ActionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "actions", abstract: "Does sixteen things to a network and asks each listener whether it is reachable.")

    @Option(help: "Only actions whose name contains this.")
    var only: String?

    private struct Witness {
        var name: String
        var arguments: [String]
    }

    func run() throws {
        print("actions: \(Machine.description)\n")
        var witnesses = [Witness(name: "this library", arguments: [Programs.built("listener"), "view"])]
        if let glib = Programs.glib { witnesses.append(Witness(name: "GLib", arguments: [glib])) }
        witnesses.append(Witness(name: "libnl cache manager", arguments: [Programs.built("peer-libnl")]))
        var right = witnesses.map { _ in 0 }
        let actions = Action.all.filter { action in only.map { action.name.contains($0) } ?? true }
        print("| action | truth | " + witnesses.map(\.name).joined(separator: " | ") + " |")
        print("|---|---|" + witnesses.map { _ in "---|" }.joined())
        for action in actions {
            let (truth, views) = try perform(action, witnesses)
            let cells = views.map { $0 == truth ? $0.text : "\($0.text) WRONG" }
            print("| \(action.name) | \(truth.text) | " + cells.joined(separator: " | ") + " |")
            for index in views.indices where views[index] == truth { right[index] += 1 }
        }
        print("| **right** | | " + right.map { "**\($0) of \(actions.count)**" }.joined(separator: " | ") + " |")
        print("")
        if Programs.glib == nil { print(Programs.glibIsMissing) }
        print(Programs.othersAreMissing)
        guard right[0] == actions.count else { throw ExitCode(1) }
    }

    private func perform(_ action: Action, _ witnesses: [Witness]) throws -> (truth: bench_view, views: [bench_view]) {
        let network = try Network()
        try action.prepare(network)
        // Carrier and duplicate address detection, so that nothing but the action follows.
        usleep(2_000_000)
        let peers = try witnesses.map { try Peer($0.arguments, hasStamps: true) }
        for _ in 0..<100 where !peers.allSatisfy({ $0.view == BENCH_VIEW_REACHABLE }) { usleep(50_000) }
        for (peer, witness) in zip(peers, witnesses) where peer.view != BENCH_VIEW_REACHABLE {
            throw BenchError("before \(action.name), \(witness.name) does not see the network")
        }
        try action.perform(network)
        // Longer than the kernel may take to announce a carrier (linkwatch: a second), and than GLib collects changes.
        usleep(2_500_000)
        return (network.isReachable ? BENCH_VIEW_REACHABLE : BENCH_VIEW_NONE, peers.map(\.view))
    }
}

extension bench_view {
    fileprivate var text: String {
        switch self {
        case BENCH_VIEW_REACHABLE: "reachable"
        case BENCH_VIEW_NONE: "none"
        default: "unknown"
        }
    }
}
