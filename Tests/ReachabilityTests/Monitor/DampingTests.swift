import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct DampingTests {
    @Test func rawLossPrecedesTheDampedOne() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            var damped = try await Listener(monitor.transitions)
            let lost = clock.now.offset
            try network.pull("eth0")
            let first = try await raw.next()
            #expect(first.kinds == .offline && first.at.sinceBoot == lost && first.current.offlineReason == .noCarrier)
            #expect(monitor.path.status == .unsatisfied)
            clock.advance(by: .milliseconds(250))
            let second = try await damped.next()
            #expect(second.kinds == .offline && second.at.sinceBoot == lost + .milliseconds(250) && second.sequence == 1)
            #expect(second.cause == first.cause && second.cause.detail == "eth0 lost carrier")
        }
    }

    @Test func shortOutageIsAReestablishment() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            var damped = try await Listener(monitor.transitions)
            try network.pull("eth0")
            clock.advance(by: .milliseconds(249))
            try network.plug("eth0")
            #expect(try await raw.next().kinds == .offline)
            #expect(try await raw.next().kinds == .online)
            let published = try await damped.next()
            #expect(published.kinds == .reestablished && published.epoch == 2 && published.sequence == 1)
            clock.advance(by: .seconds(10))
            try network.replaceRoute(to: "default", via: "192.0.2.2", dev: "eth0")
            #expect(try await damped.next().kinds == .gatewayChanged)
        }
    }

    @Test func conditionsAndPathAreRaw() async throws {
        try await withMonitor { monitor, network, clock in
            let condition = monitor.condition(for: .internet)
            #expect(condition.state == .init(isSatisfied: true, epoch: 1))
            try network.pull("eth0")
            #expect(condition.state == .init(isSatisfied: false, epoch: 1) && !monitor.path.isSatisfied)
            try network.plug("eth0")
            #expect(condition.state == .init(isSatisfied: true, epoch: 2) && monitor.path.isSatisfied)
        }
    }

    @Test func carrierCounterRevealsABlipWithinOneBatch() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            try network.batch { kernel in
                try kernel.pull("eth0")
                try kernel.plug("eth0")
            }
            let blip = try await raw.next()
            #expect(blip.kinds == .reestablished && blip.epoch == 2 && blip.flapPenalty == 1)
        }
    }

    @Test func flappingIsInformation() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            for flap in 1...5 {
                try network.pull("eth0")
                #expect(try await raw.next().flapPenalty == Double(flap))
                try network.plug("eth0")
                #expect(try await raw.next().epoch == UInt64(flap + 1))
            }
            clock.advance(by: .seconds(15))
            try network.pull("eth0")
            #expect(abs(try await raw.next().flapPenalty - 3.5) < 1e-6)
        }
    }

    @Test func flappingCarrierMakesFourLinesASecond() async throws {
        try await withMonitor { monitor, network, clock in
            var damped = try await Listener(monitor.transitions)
            let start = clock.now.offset
            for _ in 0..<1400 {
                try network.pull("eth0")
                clock.advance(by: .microseconds(300))
                try network.plug("eth0")
                clock.advance(by: .microseconds(400))
            }
            clock.advance(by: .milliseconds(250))
            var lines: [Transition] = []
            while lines.reduce(0, { $0 + $1.losses }) < 1400 { lines.append(try await damped.next()) }
            #expect(lines.count == 5 && lines.allSatisfy { $0.kinds == .reestablished })
            #expect(lines.map { $0.at.sinceBoot - start }.allSatisfy { $0 < .milliseconds(1250) })
            #expect(lines.last?.epoch == 1401 && monitor.path.isSatisfied)
            try network.pull("eth0")
            clock.advance(by: .milliseconds(250))
            let lost = try await damped.next()
            #expect(lost.kinds == .offline && lost.losses == 1 && lost.sequence == 6)
            try network.plug("eth0")
            #expect(try await damped.next().kinds == .online)
        }
    }

    @Test func heldTransitionNeedsNoAnswerOfTheKernel() async throws {
        try await withMonitor { monitor, network, clock in
            var damped = try await Listener(monitor.transitions)
            try network.replaceRoute(to: "default", via: "192.0.2.2", dev: "eth0")
            #expect(try await damped.next().kinds == .gatewayChanged)
            try network.replaceRoute(to: "default", via: "192.0.2.3", dev: "eth0")
            let latecomer = try await Listener(monitor.transitions)
            #expect(latecomer.baseline.sequence == 1 && latecomer.baseline.current.gateways == [IPAddress("192.0.2.2")])
            network.failNextRequests(1000, errno: 12)
            let lookups = network.lookups
            clock.advance(by: .milliseconds(250))
            let held = try await damped.next()
            #expect(held.kinds == .gatewayChanged && held.sequence == 2 && held.cause.kind == .routeAdded)
            #expect(held.current.gateways == [IPAddress("192.0.2.3")] && network.lookups == lookups)
        }
    }

    @Test func onlyLossesGoOutAtOnceWithoutGrace() async throws {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        try await withMonitor(configuration) { monitor, network, clock in
            var damped = try await Listener(monitor.transitions)
            try network.pull("eth0")
            #expect(try await damped.next().kinds == .offline)
            try network.plug("eth0")
            #expect(try await damped.next().kinds == .online)
            try network.replaceRoute(to: "default", via: "192.0.2.2", dev: "eth0")
            clock.advance(by: .milliseconds(250))
            let held = try await damped.next()
            #expect(held.kinds == .gatewayChanged && held.at.sinceBoot == clock.now.offset)
        }
    }
}
