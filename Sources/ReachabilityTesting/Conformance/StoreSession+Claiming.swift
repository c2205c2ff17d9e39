internal import ReachableJobs
internal import ReachableRetry

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
        try expect(try await names(worker, 3), is: ["urgent 1", "urgent 2", "normal 1"], "the first claim of 3 jobs")
        try expect(try await names(worker), is: ["normal 2", "normal 3", "bulk 1", "bulk 2"], "the claim of the rest")
    }

    /// A lane is the jobs of a queue with equal kind, version, scope and destination; later lanes have larger numbers; a claim
    /// names those that the worker does not know.
    func checkLanes() async throws {
        let worker = try await register()
        try expect(try await newLanes(of: worker), is: [], "the lanes of an empty store")
        try await push("a") { $0.destination = "x" }
        try await push("b") { $0.destination = "x" }
        try await push("c")
        let first = try await newLanes(of: worker)
        try expect(first.map(\.destination), is: ["x", nil], "the destinations of the lanes")
        let last = first.last?.id ?? 0
        try await push("d") { $0.version = 2 }
        try await push("e") { $0.scope = "192.0.2.1" }
        try await push("f") { $0.kind = "other" }
        try await push("g") { $0.queue = "other" }
        let later = try await newLanes(of: worker, after: last)
        try expect(later.map(\.version), is: [2, 1, 1], "the versions of the new lanes")
        try expect(later.map(\.scope), is: ["internet", "192.0.2.1", "internet"], "the scopes of the new lanes")
        try expect(later.map(\.kind), is: [Self.kind, Self.kind, "other"], "the kinds of the new lanes")
        let numbers = (first + later).map(\.id)
        try expect(
            zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 } && numbers[0] > 0, "the numbers \(numbers) do not grow")
        try expect(try await newLanes(of: worker, after: later.last?.id ?? 0), is: [], "the lanes behind the last one")
    }

    /// Only jobs of the named lanes of the worker's queue are claimed.
    func checkClosedLanes() async throws {
        let worker = try await register()
        let other = try await register(queue: "other")
        try await push("a") { $0.destination = "x" }
        try await push("b") { $0.destination = "y" }
        try await push("c") { $0.queue = "other" }
        try expect(try await names(worker) { _ in false }, is: [], "the jobs claimed without a lane")
        try expect(try await names(worker) { $0.destination == "y" }, is: ["b"], "the jobs claimed from the lane of b")
        let all = (Array(0...20) + Array(0...20)).map { ClaimRequest.Open(lane: $0) }
        let claims = try await store.claim(ClaimRequest(worker: worker, limit: 9, lanes: all, lastKnownLane: 0))
        try expect(
            claims.jobs.map(\.job.name), is: ["a"],
            "the jobs claimed with the lanes of two queues, each named twice, and unknown ones")
        try expect(try await names(other), is: ["c"], "the jobs of the other queue")
    }

    /// No claim exceeds the limits of the request and of its lanes; `hasMore` tells whether jobs that may run are left.
    func checkLimits() async throws {
        let worker = try await register()
        for number in 0..<6 { try await push("\(number)") { $0.destination = number < 4 ? "x" : "y" } }
        let none = try await claim(worker, 0)
        try expect(none.jobs.map(\.job.name), is: [], "the jobs claimed with a limit of 0")
        try expect(none.hasMore, is: true, "`hasMore` of a claim with a limit of 0")
        let first = try await claim(worker, 100, laneLimit: 1)
        try expect(first.jobs.map(\.job.name), is: ["0", "4"], "the jobs claimed with a limit of 1 for each lane")
        try expect(first.hasMore, is: true, "`hasMore` while each lane has one more")
        try expect(try await names(worker, 2), is: ["1", "2"], "the jobs claimed with a limit of 2")
        let rest = try await claim(worker, 2)
        try expect(rest.jobs.map(\.job.name), is: ["3", "5"], "the last jobs")
        try expect(rest.hasMore, is: false, "`hasMore` of the claim that returned the last jobs")
        try await push("later") { $0.delay = .seconds(1000) }
        try expect(try await claim(worker).hasMore, is: false, "`hasMore` while only a delayed job is left")
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
        try expect(claimed.count, is: Set(claimed).count, "the number of claims of \(Set(claimed).count) jobs")
        try expect(Set(claimed).count, is: jobs.count, "the number of claimed jobs")
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
        try expect(
            early.map(\.job.name), is: ["urgent", "normal", "bulk 1", "bulk 2", "bulk 3", "elsewhere"], "the order after 59 min")
        _ = try await store.finish(early.map { .givenBack($0.ticket) }, by: worker)
        try await pass(.seconds(120), worker)
        let late = try await claim(worker).jobs
        try expect(
            late.map(\.job.name), is: ["urgent", "bulk 1", "elsewhere", "normal", "bulk 2", "bulk 3"],
            "the order after 61 min; `bulk 2`, which was due after 30 min, is before `bulk 3` in its lane")
        _ = try await store.finish(late.map { .givenBack($0.ticket) }, by: worker)
        try await pass(.seconds(1800), worker)
        try expect(
            try await names(worker), is: ["urgent", "bulk 1", "bulk 2", "bulk 3", "elsewhere", "normal"], "the order after 91 min")
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
        try expect(claims.isPaused, is: true, "`isPaused` of a claim from a paused queue")
        try expect(claims.jobs.map(\.job.name), is: [], "the jobs claimed from a paused queue")
        try expect(try await names(other), is: ["b"], "the jobs claimed from another queue")
        let late = try await register(queue: "empty")
        try expect(try await claim(late).isPaused, is: true, "`isPaused` for a worker that registered after the pause")
        try await store.setPaused(false, queue: Self.queue)
        let resumed = try await claim(worker)
        try expect(resumed.isPaused, is: false, "`isPaused` of a claim from a resumed queue")
        try expect(resumed.jobs.map(\.job.name), is: ["a"], "the jobs claimed from a resumed queue")
    }
}
