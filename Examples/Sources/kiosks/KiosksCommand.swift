import Foundation
import Logging
import Reachability
import ReachableFleet
import ServiceLifecycle
import UnixSignals

@main struct KiosksCommand {
    static func main() async throws {
        let words = Array(CommandLine.arguments.dropFirst())
        guard words.count >= 2 else { return print(usage) }
        let chain = Chain(broker: try FleetBroker(words[1]))
        switch (words[0], words.dropFirst(2).first, words.dropFirst(3).first, words.dropFirst(4).first) {
        case ("run", let url?, let name?, let count):
            guard let server = URL(string: url) else { return print(usage) }
            let names = count.flatMap { Int($0) }.map { count in (1...max(1, count)).map { "\(name)-\($0)" } } ?? [name]
            try await run(try names.map { try FleetName($0) }, chain, server)
        case ("list", nil, nil, nil): try await Operator(chain: chain).list()
        case ("retry", nil, nil, nil): try await Operator(chain: chain).retryAll()
        case ("forget", let name?, nil, nil): try await Operator(chain: chain).forget(FleetName(name))
        default: print(usage)
        }
    }

    /// Runs kiosks until a signal ends the process: one on each machine, or many in a rehearsal.
    static func run(_ names: [FleetName], _ chain: Chain, _ server: URL) async throws {
        let monitor = ReachabilityMonitor()
        let kiosks = try names.map { try Kiosk($0, chain, server: server, monitor) }
        let group = ServiceGroup(
            services: [monitor] + kiosks.flatMap(\.services), gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "kiosks"))
        try await group.run()
    }

    static let usage = """
        kiosks run BROKER URL NAME [COUNT] | kiosks list BROKER | kiosks retry BROKER | kiosks forget BROKER NAME
        BROKER is mqtt://HOST, or mqtts://HOST for TLS
        """
}
