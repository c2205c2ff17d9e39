import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// Processes that are killed, and machines that restart or sleep, in virtual time.
@Suite(.timeLimit(.minutes(10))) struct TestProcessTests {
    /// A server that holds the uploads of some files, and turns others away for 30 s.
    private final class Server: Sendable {
        private let state = Mutex((lines: [String](), held: Set<String>(), isBusy: false))
        let clock: WorldClock

        init(_ clock: WorldClock) { self.clock = clock }

        var lines: [String] { state.withLock { $0.lines } }
        func hold(_ files: String...) { state.withLock { $0.held = Set(files) } }
        func setBusy(_ isBusy: Bool) { state.withLock { $0.isBusy = isBusy } }

        func put(_ file: String, _ attempt: DurableAttempt) async throws {
            let (isHeld, isBusy) = state.withLock { state in
                state.lines.append("\(file) \(attempt.number)")
                return (state.held.contains(file), state.isBusy)
            }
            if isBusy { throw Busy() }
            if isHeld { try await clock.sleep(for: .seconds(1_000_000)) }
        }
    }

    private static func queue(_ store: any JobStore, _ bus: RetryBus, _ server: Server) -> JobQueue {
        let queue = JobQueue(store, bus: bus)
        queue.registerJob(parameters: Send.self, policy: .tests) { try await server.put($0.text, $1) }
        return queue
    }

    @discardableResult
    private static func run(_ world: TestWorld, _ server: Server) -> (TestProcess, JobQueue) {
        let process = world.launch()
        let queue = queue(process.store, process.bus, server)
        process.start { await queue.run() }
        return (process, queue)
    }

    @Test func aJobThatDidNotRunCountsNoCrash() async throws {
        try await TestWorld().run { world in
            let server = Server(world.clock)
            try world.network.pull("eth0")
            let (process, queue) = Self.run(world, server)
            try await queue.push(Send("a"))
            await world.settle()
            await process.kill()
            try world.network.plug("eth0")
            await world.settle()
            #expect(try await queue.jobs().map(\.counters) == [.init()] && server.lines.isEmpty)
        }
    }

    @Test func nothingOfAnEndedProcessReachesTheStore() async throws {
        try await TestWorld().run { world in
            // A handler that is deaf to its cancellation.
            let (going, goes) = AsyncStream.makeStream(of: Void.self)
            let process = world.launch()
            let queue = JobQueue(process.store, bus: process.bus)
            queue.registerJob(parameters: Send.self) { _, _ in await Task { for await _ in going { break } }.value }
            let running = process.start { await queue.run() }
            let id = try await queue.push(Send("a")).id
            await world.settle()
            await process.kill()
            goes.yield()
            await running.value
            #expect(try await queue.jobs().map(\.state) == [.available])
            let changes: [() async throws -> Void] = [
                { _ = try await queue.push(Send("b")) }, { _ = try await queue.cancel(id) }, { try await queue.pause() },
            ]
            for change in changes {
                let error = await #expect(throws: JobStoreError.self) { try await change() }
                #expect(error?.code == .unavailable)
            }
            let late = process.start { Task.isCancelled }
            #expect(await late.value)
        }
    }

    @Test func onlyTheKilledProcessLosesItsJobs() async throws {
        try await TestWorld().run { world in
            let server = Server(world.clock)
            server.hold("a", "b")
            let (first, queue) = Self.run(world, server)
            try await queue.push(Send("a"))
            await world.settle()
            try await queue.pause()
            let (_, other) = Self.run(world, server)
            try await other.push(Send("b"))
            await first.kill()
            try await other.resume()
            // The first of a backlog tries the path alone for this long.
            await world.clock.advance(by: .seconds(5))
            #expect(server.lines == ["a 1", "a 2", "b 1"])
            #expect(try await other.jobs().map(\.counters.crashes) == [1, 0])
        }
    }

    @Test func aRebootKeepsCountersDelaysAndDeadlines() async throws {
        try await TestWorld().run { world in
            let server = Server(world.clock)
            server.setBusy(true)
            let (_, queue) = Self.run(world, server)
            try await queue.push(Send("a", destination: "server"))
            try await queue.push(Send("b", destination: "server", timeLimit: .seconds(20)))
            await world.settle()
            // The server's order holds its destination, and so the second job.
            #expect(server.lines.first == "a 1")
            let charged = try await queue.jobs().map(\.counters.charged)
            await world.reboot()
            server.setBusy(false)
            Self.run(world, server)
            await world.clock.advance(by: .seconds(29))
            #expect(server.lines.filter { $0.hasPrefix("a") } == ["a 1"])
            #expect(try await queue.jobs().map(\.counters.charged) == charged)
            #expect(try await queue.jobs().map(\.state) == [.available, .failed])
            #expect(try await queue.jobs()[1].failureReason == "deadline")
            await world.clock.advance(by: .seconds(2))
            #expect(server.lines.last == "a 2")
        }
    }

    @Test func aSuspensionFreesNoClaim() async throws {
        try await TestWorld().run { world in
            let worker = try await world.store.register()
            try await world.store.push("a")
            let ticket = try #require(await world.store.claim(worker).jobs.first?.ticket)
            #expect(try await world.store.start([ticket], by: worker) == [true])
            let before = world.store.now
            world.network.suspend(for: .seconds(3600))
            #expect(before.duration(to: world.store.now) == .seconds(3600), "delays and deadlines go on")
            await world.clock.advance(by: .seconds(29))
            #expect(try await world.store.find(.init()).map(\.state) == [.running])
            _ = try await world.store.extend(worker)
            await world.clock.advance(by: .seconds(29))
            #expect(try await world.store.find(.init()).map(\.counters.crashes) == [0])
            #expect(try await world.store.find(.init()).map(\.state) == [.running])
            await world.clock.advance(by: .seconds(1))
            let other = try await world.store.register()
            #expect(try await world.store.claim(other).jobs.map(\.job.id) == [ticket.id], "a lease ends without a heartbeat")
        }
    }

    @Test(arguments: [-50, 50]) func aStepOfTheWallClockKillsAndExpiresNothing(years: Int) async throws {
        try await TestWorld().run { world in
            let date = Mutex(Date(timeIntervalSince1970: 1_767_225_600))
            let store = MemoryStore(clock: world.clock) { date.withLock { $0 } }
            let server = Server(world.clock)
            let queue = Self.queue(store, world.bus, server)
            let running = world.start { await queue.run() }
            try await queue.push(Send("done"))
            await world.settle()
            server.hold("a")
            try await queue.push(Send("a"))
            await world.settle()
            try await queue.pause()
            try await queue.push(Send("b", timeLimit: .seconds(3600)))
            date.withLock { $0.addTimeInterval(Double(years) * 365 * 86_400) }
            await world.clock.advance(by: .seconds(3599))
            #expect(try await queue.jobs().map(\.state) == [.succeeded, .running, .available])
            #expect(try await queue.jobs().map(\.counters.crashes) == [0, 0, 0])
            running.cancel()
            await running.value
        }
    }
}
