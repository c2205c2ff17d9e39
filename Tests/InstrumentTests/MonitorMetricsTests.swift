import InMemoryLogging
import Logging
import MetricsTestKit
import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct MonitorMetricsTests {
    @Test func anOutageIsMeasuredFromTheLossItself() async throws {
        try await Bench().run { bench in
            let satisfied = try bench.metrics.expectMeter("reachability.satisfied")
            #expect(satisfied.lastValue == 1)
            try bench.network.pull("eth0")
            #expect(satisfied.lastValue == 0)
            #expect(try bench.count("reachability.transitions", ("kind", "offline")) == 0, "it may end within the grace")
            bench.clock.advance(by: .seconds(30))
            #expect(try bench.count("reachability.transitions", ("kind", "offline")) == 1)
            try bench.network.plug("eth0")
            #expect(satisfied.lastValue == 1)
            #expect(try bench.count("reachability.transitions", ("kind", "online")) == 1)
            #expect(try bench.seconds("reachability.outage.seconds") == [30])
        }
    }

    @Test func outageWithinTheGraceIsNotCounted() async throws {
        try await Bench().run { bench in
            try bench.network.pull("eth0")
            bench.clock.advance(by: .milliseconds(100))
            try bench.network.plug("eth0")
            #expect(try bench.count("reachability.transitions", ("kind", "reestablished")) == 1)
            #expect(try bench.count("reachability.transitions", ("kind", "offline")) == 0)
            bench.clock.advance(by: .seconds(100))
            try bench.network.pull("eth0")
            bench.clock.advance(by: .seconds(3))
            try bench.network.plug("eth0")
            #expect(try bench.seconds("reachability.outage.seconds") == [3])
        }
    }

    @Test func lossesThatShareATransitionAreCounted() async throws {
        try await Bench().run { bench in
            for _ in 0..<100 {
                try bench.network.pull("eth0")
                try bench.network.plug("eth0")
            }
            bench.clock.advance(by: .milliseconds(250))
            #expect(try bench.count("reachability.transitions", ("kind", "reestablished")) == 2)
            #expect(try bench.count("reachability.path.losses") == 100)
            try bench.network.pull("eth0")
            bench.clock.advance(by: .milliseconds(250))
            #expect(try bench.count("reachability.path.losses") == 101)
        }
    }

    @Test func lostEventsAndFailedRequestsAreCounted() async throws {
        try await Bench().run { bench in
            bench.network.failNextRequests(2, errno: 16)
            try bench.network.loseEvents { try $0.setUp("eth0", false) }
            bench.clock.advance(by: .seconds(10))
            let health = bench.monitor.health
            #expect(health.losses > 0 && health.failedRequests > 0 && health.resyncs > 0)
            #expect(try bench.count("reachability.losses") == health.losses)
            #expect(try bench.count("reachability.requests.failed") == health.failedRequests)
            #expect(try bench.count("reachability.resyncs") == health.resyncs)
            #expect(try bench.count("reachability.missed.by.events") == health.missedByEvents)
        }
    }

    @Test func otherScopesThanTheInternetAreNotCounted() async throws {
        try await Bench().run { bench in
            let address = try #require(IPAddress("192.0.2.77"))
            var transitions = bench.monitor.transitions(to: .address(address)).makeAsyncIterator()
            _ = await transitions.next(isolation: #isolation)
            try bench.network.pull("eth0")
            bench.clock.advance(by: .seconds(1))
            _ = await transitions.next(isolation: #isolation)
            #expect(try bench.count("reachability.transitions", ("kind", "offline")) == 1)
            let offlineEntries = bench.entries("reachability.scope").filter { $0.message == "offline" }
            #expect(offlineEntries.map(\.level).sorted() == [.debug, .info], "the log has both")
        }
    }

    @Test func endIsReportedToo() async throws {
        let bench = try Bench()
        try await bench.run { _ in }
        #expect(try bench.metrics.expectMeter("reachability.satisfied").lastValue == 0)
        let last = try #require(bench.entries("reachability.mode").last)
        #expect(last.level == .debug && last.metadata["reachability.mode"] == "blind")
    }
}
