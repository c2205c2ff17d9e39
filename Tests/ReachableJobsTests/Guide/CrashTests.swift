import ReachabilityTesting
import ReachableJobs
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct CrashTests {
    @Test func aNoteSurvivesACrashAndAReboot() async throws {
        try await TestWorld().run { world in
            let server = SlowServer(world.clock)
            try world.network.pull("eth0")
            let (first, queue) = startProcess(world, server)
            try await queue.push(SendNote(name: "shopping", text: "milk"), unique: .replace("shopping"))
            try await queue.push(SendNote(name: "shopping", text: "milk, bread"), unique: .replace("shopping"))
            await world.clock.advance(by: .seconds(3600))
            #expect(server.requests.isEmpty, "offline nothing is sent")

            try world.network.plug("eth0")
            await world.settle()
            #expect(server.requests.map(\.text) == ["milk, bread"], "at once, and only the last version")
            await first.kill()

            startProcess(world, server)
            await world.settle()
            await world.reboot()

            startProcess(world, server)
            await world.clock.advance(by: .seconds(3600))
            #expect(server.requests.map(\.text) == ["milk, bread", "milk, bread", "milk, bread"])
            #expect(Set(server.requests.map(\.key)).count == 1, "the server can tell that they are the same")
            let job = try await queue.jobs()[0]
            #expect(job.state == .succeeded && job.counters.crashes == 1, "the reboot is no crash")
        }
    }

    /// Starts a process of the app.
    @discardableResult
    private func startProcess(_ world: TestWorld, _ server: SlowServer) -> (TestProcess, JobQueue) {
        let process = world.launch()
        let queue = process.makeQueue()
        queue.registerNotes(server) { _ in }
        process.start { await queue.run() }
        return (process, queue)
    }
}

/// A server that takes ten seconds to answer.
private final class SlowServer: NoteServer {
    private let log = Mutex<[(text: String, key: String)]>([])
    private let clock: WorldClock

    init(_ clock: WorldClock) { self.clock = clock }

    var requests: [(text: String, key: String)] { log.withLock { $0 } }

    func put(_ note: SendNote, key: String) async throws {
        log.withLock { $0.append((note.text, key)) }
        try await clock.sleep(for: .seconds(10))
    }
}
