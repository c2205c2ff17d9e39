import Reachability
import Testing

@testable import reachability_watch

@Suite(.timeLimit(.minutes(1)))
struct WatchSessionTests {
    private let network = ScriptedNetwork(isConnected: true)
    private let notes = LineCollector()
    private let clock = AlarmClock()

    private func session(_ output: LineCollector, scopes: [Scope] = [.internet], buffer: Int = 64) -> WatchSession {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        configuration.bufferedTransitions = buffer
        return WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration), scopes: scopes, style: TextStyle(), clock: clock,
            output: output, notes: notes)
    }

    @Test func writesTheBaselineThenEachChangeAndEndsWithItsCount() async {
        let output = LineCollector()
        var session = session(output)
        session.count = 3
        async let end = session.run()
        #expect(await output.next().contains("● online   via eth0"))
        network.change(reachable: [])
        #expect(await output.next().contains("○ offline  after at least 1.0 s: no route"))
        network.change(reachable: nil)
        #expect(await output.next().contains("● online   after 1.0 s: via eth0"))
        #expect(await end == .done)
        #expect(output.lines.count == 3)
        #expect(notes.lines.isEmpty)
    }

    @Test func beginsWithTheBaselinesInTheOrderOfTheScopes() async {
        let output = LineCollector()
        let addresses = (1...9).map { Samples.address("198.51.100.\($0)") }
        var session = session(output, scopes: addresses.map(Scope.address))
        session.format = .json
        session.count = 10
        async let end = session.run()
        for address in addresses {
            let line = await output.next()
            #expect(line.hasPrefix(#"{"event":"baseline","sequence":0,"#) && line.contains(#""scope":"\#(address)""#))
        }
        network.change(reachable: Set(addresses.dropLast()))
        let line = await output.next()
        #expect(line.contains(#""event":"transition""#) && line.contains(#""scope":"198.51.100.9""#))
        #expect(await end == .done)
    }

    @Test func endsWhenItsTimeIsUp() async {
        let output = LineCollector()
        var session = session(output)
        session.timeLimit = .seconds(5)
        async let end = session.run()
        _ = await output.next()
        clock.ring()
        #expect(await end == .done)
        #expect(output.lines.count == 1)
    }

    @Test(arguments: [OutputFailure.readerGone, .refused(errno: 28)])
    func endsWhenItsOutputFails(_ failure: OutputFailure) async {
        let output = LineCollector { _ throws(OutputFailure) in throw failure }
        #expect(await session(output).run() == .outputFailed(failure))
    }

    @Test func tellsTheEndOfTheMonitorAndItsError() async {
        let output = LineCollector()
        let session = session(output)
        let error = ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)")
        async let end = session.run()
        _ = await output.next()
        network.fail(with: error)
        #expect(await end == .monitorEnded(error))
        #expect(output.lines.last?.contains("◌ unknown") == true)
    }

    @Test func notesWhatItWasTooSlowFor() async {
        let output = LineCollector { [network] count throws(OutputFailure) in
            guard count == 0 else { return }
            // While the first line is being written, three changes come; the stream keeps one.
            network.change(reachable: [])
            network.change(reachable: nil)
            network.change(reachable: [])
        }
        var session = session(output, buffer: 1)
        session.count = 2
        #expect(await session.run() == .done)
        #expect(output.lines.last?.contains("○ offline  no route") == true)
        #expect(notes.lines == ["reachability-watch: 2 transitions of internet dropped: standard output is read too slowly."])
    }
}
