import ReachableJobs
import ReachableRetry
import Testing

/// The requirements of `claim`, and of pauses.
extension StoreSession {
    /// Jobs come by priority, then by position, whatever their lanes.
    func checkOrder() async throws {
        let worker = try await register()
        try await push("bulk 1") { ($0.priority, $0.destination) = (.bulk, "a") }
        try await push("normal 1") { $0.destination = "b" }
        try await push("urgent 1") { ($0.priority, $0.kind) = (.interactive, "other") }
        try await push("normal 2") { $0.version = 2 }
        try await push("urgent 2") { ($0.priority, $0.destination) = (.interactive, "a") }
        try await push("normal 3") { $0.destination = "b" }
        try await push("bulk 2") { $0.priority = .bulk }
        #expect(try await names(worker, 3) == ["urgent 1", "urgent 2", "normal 1"])
        #expect(try await names(worker) == ["normal 2", "normal 3", "bulk 1", "bulk 2"])
    }

    /// A lane is the jobs of a queue with equal kind, version, scope and destination; later lanes have larger numbers; a claim
    /// names those that the worker does not know.
    func checkLanes() async throws {
        let worker = try await register()
        #expect(try await newLanes(of: worker) == [])
        try await push("a") { $0.destination = "x" }
        try await push("b") { $0.destination = "x" }
        try await push("c")
        let first = try await newLanes(of: worker)
        try #require(first.map(\.destination) == ["x", nil])
        try await push("d") { $0.version = 2 }
        try await push("e") { $0.scope = "192.0.2.1" }
        try await push("f") { $0.kind = "other" }
        try await push("g") { $0.queue = "other" }
        let later = try await newLanes(of: worker, after: first[1].id)
        #expect(later.map(\.version) == [2, 1, 1])
        #expect(later.map(\.scope) == ["internet", "192.0.2.1", "internet"])
        #expect(later.map(\.kind) == [Self.kind, Self.kind, "other"])
        let numbers = (first + later).map(\.id)
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 } && numbers[0] > 0)
        #expect(try await newLanes(of: worker, after: try #require(numbers.last)) == [])
    }

    /// Only jobs of the named lanes of the worker's queue are claimed.
    func checkClosedLanes() async throws {
        let worker = try await register()
        let other = try await register(queue: "other")
        try await push("a") { $0.destination = "x" }
        try await push("b") { $0.destination = "y" }
        try await push("c") { $0.queue = "other" }
        #expect(try await names(worker) { _ in false } == [])
        #expect(try await names(worker) { $0.destination == "y" } == ["b"])
        let all = (Array(0...20) + Array(0...20)).map { ClaimRequest.Open(lane: $0) }
        let claims = try await store.claim(ClaimRequest(worker: worker, limit: 9, lanes: all, lastKnownLane: 0))
        #expect(claims.names == ["a"])
        #expect(try await names(other) == ["c"])
    }

    /// No claim exceeds the limits of the request and of its lanes; `hasMore` tells whether jobs that may run are left.
    func checkLimits() async throws {
        let worker = try await register()
        for number in 0..<6 { try await push("\(number)") { $0.destination = number < 4 ? "x" : "y" } }
        let none = try await claim(worker, 0)
        #expect(none.names == [] && none.hasMore)
        let first = try await claim(worker, 100, laneLimit: 1)
        #expect(first.names == ["0", "4"] && first.hasMore)
        #expect(try await names(worker, 2) == ["1", "2"])
        let rest = try await claim(worker, 2)
        #expect(rest.names == ["3", "5"] && !rest.hasMore)
        try await push("later") { $0.delay = .seconds(1000) }
        #expect(try await !claim(worker).hasMore)
    }

    /// A job is claimed once, however many workers claim at the same time.
    func checkExclusiveClaims() async throws {
        let jobs = (0..<60).map { number in job("\(number)") { $0.destination = "\(number % 3)" } }
        _ = try await store.push(jobs, limit: nil)
        var workers: [WorkerID] = []
        for _ in 0..<6 { workers.append(try await register()) }
        let lanes = try await newLanes(of: workers[0])
        let claimed = try await withThrowingTaskGroup(of: [String].self) { group in
            for (number, worker) in workers.enumerated() {
                let store = number % 2 == 0 ? store : candidate.peer
                group.addTask {
                    let open = lanes.map { ClaimRequest.Open(lane: $0.id) }
                    let request = ClaimRequest(worker: worker, limit: 4, lanes: open, lastKnownLane: open.last?.lane ?? 0)
                    var names: [String] = []
                    while true {
                        let jobs = try await store.claim(request).jobs
                        if jobs.isEmpty { return names }
                        names += jobs.map(\.job.name)
                    }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(claimed.count == Set(claimed).count)
        #expect(Set(claimed).count == jobs.count)
    }

    /// A bulk job counts as a normal one from an hour after it was due, and not before those before it in its lane.
    func checkAgeing() async throws {
        let worker = try await register()
        try await push("bulk 1") { $0.priority = .bulk }
        try await push("bulk 2") { ($0.priority, $0.delay) = (.bulk, .seconds(1800)) }
        try await push("bulk 3") { $0.priority = .bulk }
        try await push("elsewhere") { ($0.priority, $0.destination) = (.bulk, "x") }
        try await pass(.seconds(3540), worker)
        try await push("normal")
        try await push("urgent") { $0.priority = .interactive }
        let early = try await claim(worker).jobs
        #expect(early.map(\.job.name) == ["urgent", "normal", "bulk 1", "bulk 2", "bulk 3", "elsewhere"])
        try await giveBack(early, by: worker)
        try await pass(.seconds(120), worker)
        let late = try await claim(worker).jobs
        #expect(late.map(\.job.name) == ["urgent", "bulk 1", "elsewhere", "normal", "bulk 2", "bulk 3"])
        try await giveBack(late, by: worker)
        try await pass(.seconds(1800), worker)
        #expect(try await names(worker) == ["urgent", "bulk 1", "bulk 2", "bulk 3", "elsewhere", "normal"])
    }

    /// While a queue is paused nothing of it is claimed; resuming ends that.
    func checkPausing() async throws {
        let worker = try await register()
        let other = try await register(queue: "other")
        try await push("a")
        try await push("b") { $0.queue = "other" }
        try await store.setPaused(true, queue: Self.queue)
        try await store.setPaused(true, queue: "empty")
        let claims = try await claim(worker)
        #expect(claims.isPaused && claims.names == [])
        #expect(try await names(other) == ["b"])
        let late = try await register(queue: "empty")
        #expect(try await claim(late).isPaused)
        try await store.setPaused(false, queue: Self.queue)
        let resumed = try await claim(worker)
        #expect(!resumed.isPaused && resumed.names == ["a"])
    }
}
