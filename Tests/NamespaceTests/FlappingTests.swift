import CSandbox
import Foundation
import Glibc
import Reachability
import TestSupport
import Testing

/// A carrier that flaps a thousand times a second.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct FlappingTests {
    /// A machine whose only way out is a device of which `ip` sets the carrier: the kernel announces that at once (do_setlink(),
    /// net/core/rtnetlink.c), and not once a second like a veth pair's.
    ///
    /// - Returns: the machine, and the descriptor that holds the device, for the caller to close.
    private static func network() async throws -> (CabledNetwork, Int32) {
        let network = try await CabledNetwork()
        let device = csandbox_open_tunnel(network.near.path, "flap0")
        try #require(device >= 0, "no device: \(String(cString: strerror(-device)))")
        try await network.near.ip(
            """
            link set flap0 up
            addr add 203.0.113.10/24 dev flap0
            route add default via 203.0.113.1 dev flap0
            """)
        return (network, device)
    }

    /// Flaps for some seconds; the carrier is there at the end.
    private static func flap(_ network: CabledNetwork, for time: Duration) async throws -> Int {
        let batch = Array(repeating: "link set flap0 carrier off\nlink set flap0 carrier on", count: 500).joined(separator: "\n")
        let clock = ContinuousClock()
        let start = clock.now
        var flaps = 0
        while clock.now - start < time {
            try await network.near.ip(batch)
            flaps += 500
        }
        return flaps
    }

    @Test func dampedStreamTellsEveryLossInFourLinesASecond() async throws {
        let (network, device) = try await Self.network()
        defer { close(device) }
        var configuration = ReachabilityMonitor.Configuration.quiet
        configuration.bufferedTransitions = 100_000
        try await network.watching(configuration: configuration) { watcher in
            let (monitor, scope) = (watcher.monitor, try #require(IPAddress("198.51.100.7")))
            let (raw, damped) = (
                StreamRecord(monitor, .address(scope), isRaw: true), StreamRecord(monitor, .address(scope), isRaw: false)
            )
            let (beats, beat) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let following = [raw, damped].map { record in Task { await record.follow(beat) } }
            defer { for task in following { task.cancel() } }
            for await _ in beats where raw.last != nil && damped.last != nil { break }
            let clock = ContinuousClock()
            let start = clock.now
            let flaps = try await Self.flap(network, for: .seconds(3))
            try await network.near.ip("link set flap0 carrier off")
            for await _ in beats where damped.last?.kinds == .offline && raw.last?.kinds == .offline { break }
            let seconds = (clock.now - start) / .seconds(1)
            #expect(raw.faults.isEmpty && damped.faults.isEmpty, "\(raw.faults.prefix(3)) \(damped.faults.prefix(3))")
            #expect(damped.losses == raw.losses && raw.losses <= flaps + 1)
            #expect(Double(damped.count) <= 4 * seconds + 1, "\(damped.count) lines in \(seconds) s")
            #expect(raw.count > damped.count * 3, "\(flaps) flaps made \(raw.count) raw transitions")
            #expect(damped.last?.current.offlineReason == .noCarrier)
        }
    }

    @Test func watchItsHookAndItsLogGetTheSameFewLines() async throws {
        let (network, device) = try await Self.network()
        defer { close(device) }
        let folder = try TemporaryFolder()
        try folder.writeProgram("#!/bin/sh\necho $REACHABILITY_SEQUENCE >>\(folder.path)/seen", to: "hook")
        let files = ["--log", "\(folder.path)/log", "--exec", "\(folder.path)/hook"]
        let watch = try WatchCommand(network, options: files)
        #expect(try await watch.next().path.status == "satisfied")
        let clock = ContinuousClock()
        let start = clock.now
        let flaps = try await Self.flap(network, for: .seconds(3))
        let lost = try await watch.expect("unsatisfied", "noCarrier") {
            try await network.near.ip("link set flap0 carrier off")
        }
        let back = try await watch.expect("satisfied") { try await network.near.ip("link set flap0 carrier on") }
        #expect(lost.kinds == ["offline"] && back.kinds == ["online"])
        let seconds = (clock.now - start) / .seconds(1)
        watch.child.signal(SIGTERM)
        #expect(await watch.child.exitCode() == 143)
        let count = back.sequence
        // The last one became satisfied.
        #expect(Double(count) <= 4 * seconds + 2, "\(count) lines for \(flaps) flaps in \(seconds) s")
        let logged = folder.read("log").split(separator: "\n")
            .filter { $0.contains(#""transition""#) }
        // The signal may come before the last line is in the log.
        #expect((count - 1...count).contains(logged.count))
        let hooked = folder.read("seen").split(separator: "\n").compactMap { Int($0) }
        #expect(hooked.count <= count + 1 && hooked.max().map { $0 >= count - 1 } == true, "\(hooked)")
    }
}
