import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ConcurrentDeliveryTests {
    let network = SimulatedNetwork.online()
    let log = Recorder<String>()

    /// Runs the network while `body` runs; `deliver` logs its beginning and its end around `action`.
    private func logging(
        _ action: @escaping @Sendable (NetworkEventBatch) -> Void, _ body: (SimulatedNetwork) async throws -> Void
    ) async throws {
        try await network.running(
            { [log] batch in
                log.record("begin " + (batch.events.isEmpty ? "tick" : batch.events.map(\.text).joined(separator: ", ")))
                action(batch)
                log.record("end")
                return nil
            }, body)
    }

    @Test func nestedChangeIsDeliveredAfterwards() async throws {
        try await logging { [network] batch in
            if batch.events == [.netconf(interface: 1)] {
                do { try network.pull("eth0") } catch { Issue.record(error) }
                network.announce(.netconf(interface: 2))
            }
        } _: { network in
            network.announce(.netconf(interface: 1))
            #expect(
                log.value == [
                    "begin tick", "end", "begin netconf if1", "end", "begin link eth0 up down", "end",
                    "begin netconf if2", "end",
                ])
        }
    }

    @Test func nestedWakesBecomeOneEmptyBatch() async throws {
        try await logging { [network] batch in
            if !batch.events.isEmpty {
                network.wake()
                network.wake()
            }
        } _: { network in
            try network.pull("eth0")
            #expect(log.value == ["begin tick", "end", "begin link eth0 up down", "end", "begin tick", "end"])
        }
    }

    @Test func wakeDeliversEmptyBatchBeforeItReturns() async throws {
        try await logging { _ in
        } _: { network in
            network.wake()
            #expect(log.value == ["begin tick", "end", "begin tick", "end"])
        }
    }

    @Test func wakeNeverWaitsForDelivery() async throws {
        try await logging { [network] batch in
            // A wake that waited for this call of deliver would deadlock.
            if !batch.events.isEmpty { onAnotherThread { network.wake() } }
        } _: { network in
            try network.pull("eth0")
            #expect(log.value == ["begin tick", "end", "begin link eth0 up down", "end", "begin tick", "end"])
        }
    }

    /// The clock is advanced while the monitor asks for a pause that is over by then.
    @Test func pauseThatHasPassedDuringDeliveryEndsAtOnce() async throws {
        let count = Recorder<Int>()
        try await network.running { [network] _ in
            count.record(0)
            guard count.value.count == 2 else { return nil }
            network.clock.advance(by: .milliseconds(300))
            return .milliseconds(300)
        } _: { network in
            network.wake()
            #expect(count.value.count == 3)
        }
    }

    @Test func queriesAreAnsweredDuringDelivery() async throws {
        let destination = try #require(IPAddress("198.51.100.1"))
        try await network.running { [network, log] batch in
            guard !batch.events.isEmpty else { return nil }
            onAnotherThread { log.record("there \((try? network.interfaces())?.last?.hasCarrier ?? true)") }
            log.record("here \((try? network.route(to: RouteQuery(to: destination))) != nil)")
            return nil
        } _: { network in
            try network.pull("eth0")
            #expect(log.value == ["there false", "here true"])
        }
    }

    @Test func threadsSeeTheirOwnChangesDelivered() async throws {
        let shared = DeliveryLog()
        try await network.running { batch in
            shared.enter()
            defer { shared.leave() }
            shared.note(batch)
            return nil
        } _: { network in
            await withTaskGroup { group in
                for writer in UInt32(0)..<8 {
                    group.addTask {
                        for turn in UInt32(1)...200 {
                            let mark = writer << 16 | turn
                            network.announce(.netconf(interface: mark))
                            if turn.isMultiple(of: 7) { network.wake() }
                            #expect(shared.hasSeen(mark))
                        }
                    }
                }
            }
            #expect(shared.count == 1_600)
            #expect(!shared.hasOverlapped)
        }
    }

    @Test func concurrentChangesAreDeliveredInOrder() async throws {
        let batches = Recorder<NetworkEventBatch>()
        try await network.running { batch in
            batches.record(batch)
            return nil
        } _: { network in
            await withTaskGroup { group in
                for writer in 0..<4 {
                    group.addTask {
                        for turn in 0..<1_000 {
                            do { try network.setCarrier("eth0", (turn + writer).isMultiple(of: 2)) } catch { Issue.record(error) }
                        }
                    }
                }
            }
            let changes = batches.value.flatMap(\.events).compactMap { event -> UInt32? in
                if case .link(let link) = event.payload { link.carrierChanges } else { nil }
            }
            #expect(changes.count > 1)
            #expect(changes == Array(1...UInt32(changes.count)))
        }
    }

    @Test func silentChangeHidesNoOtherChange() async throws {
        try await network.running { [log] batch in
            for event in batch.events { log.record(event.text) }
            return nil
        } _: { network in
            await withTaskGroup { group in
                group.addTask {
                    for turn in 0..<300 { network.changeSilently { kernel in _ = try? kernel.addLink("quiet\(turn)") } }
                }
                group.addTask {
                    for turn in 0..<300 {
                        do { try network.addLink("loud\(turn)") } catch { Issue.record(error) }
                        #expect(log.value.last == "link loud\(turn) up carrier up")
                    }
                }
            }
            #expect(log.value.count == 300)
            #expect(network.kernel.interfaces.count == 602)
        }
    }

    @Test func concurrentChangesOfModelAreAllMade() async throws {
        try await network.running { _ in
            nil
        } _: { network in
            await withTaskGroup { group in
                for writer in 0..<8 {
                    group.addTask {
                        for turn in 0..<50 {
                            do { try network.addLink("cable\(writer)x\(turn)") } catch { Issue.record(error) }
                        }
                    }
                }
            }
            #expect(network.kernel.interfaces.count == 2 + 400)
            #expect(Set(network.kernel.interfaces.map(\.index)).count == 2 + 400)
        }
    }
}

/// The marks and the overlaps that `deliver` has seen.
private final class DeliveryLog: Sendable {
    private struct State {
        var marks: Set<UInt32> = []
        var depth = 0
        var hasOverlapped = false
    }

    private let state = Mutex(State())

    func enter() {
        state.withLock { state in
            state.depth += 1
            if state.depth > 1 { state.hasOverlapped = true }
        }
    }

    func leave() { state.withLock { $0.depth -= 1 } }

    func note(_ batch: NetworkEventBatch) {
        for event in batch.events {
            if case .netconf(let mark?) = event.payload { _ = state.withLock { $0.marks.insert(mark) } }
        }
    }

    func hasSeen(_ mark: UInt32) -> Bool { state.withLock { $0.marks.contains(mark) } }
    var count: Int { state.withLock { $0.marks.count } }
    var hasOverlapped: Bool { state.withLock { $0.hasOverlapped } }
}
