import ReachableJobs

/// A store between a caller and another store: a test changes values that pass it, and takes calls over.
struct WarpedStore: JobStore {
    private struct Change<Value>: Sendable {
        var body: @Sendable (inout Value) -> Void
    }

    private struct Call<Argument, Answer>: Sendable {
        var body: @Sendable (Argument) async throws -> Answer
    }

    /// Called with the name of each method that returns or throws.
    var onReturn: @Sendable (_ method: String) async throws -> Void = { _ in }
    private let current: @Sendable () -> any JobStore
    private var store: any JobStore { current() }
    private var warps: [any Sendable] = []

    /// Wraps a store, which may be another one in each call.
    init(_ store: @escaping @autoclosure @Sendable () -> any JobStore) { current = store }

    /// Changes all arguments and answers of a type, also in arrays.
    mutating func change<Value>(_ body: @escaping @Sendable (inout Value) -> Void) {
        let inArrays = Change<[Value]> { values in for index in values.indices { body(&values[index]) } }
        let inOptionals = Change<[Value?]> { values in
            for (index, value) in values.enumerated() {
                guard var value else { continue }
                body(&value)
                values[index] = value
            }
        }
        warps += [Change(body: body), inArrays, inOptionals]
    }

    /// Takes over the calls with an argument and an answer of these types; no two methods share both.
    mutating func replace<Argument, Answer>(_ body: @escaping @Sendable (Argument) async throws -> Answer) {
        warps.append(Call(body: body))
    }

    private func changed<Value>(_ value: Value) -> Value {
        var value = value
        for case let change as Change<Value> in warps { change.body(&value) }
        return value
    }

    private func call<Argument, Answer: Sendable>(
        _ argument: Argument, _ method: String = #function, _ body: (Argument) async throws -> Answer
    ) async throws(JobStoreError) -> Answer {
        func answer() async throws -> Answer {
            for case let call as Call<Argument, Answer> in warps { return try await call.body(argument) }
            return changed(try await body(argument))
        }
        do {
            let result: Result<Answer, any Error>
            do { result = .success(try await answer()) } catch { result = .failure(error) }
            try await onReturn(method)
            return try result.get()
        } catch {
            throw error as? JobStoreError ?? JobStoreError(.unavailable, "\(error)", next: "look at the test")
        }
    }

    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try await call((jobs, limit)) { try await store.push(changed($0), limit: changed($1)) }
    }
    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await call((queue, node)) { try await store.register(queue: $0, node: $1) }
    }
    func unregister(_ worker: WorkerID) async throws(JobStoreError) { try await call(worker) { try await store.unregister($0) } }
    func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        try await call(worker) { try await store.extend($0) }
    }
    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        try await call(request) { try await store.claim(changed($0)) }
    }
    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        try await call((queue, limit)) { try await store.expire(queue: $0, limit: $1) }
    }
    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try await call((tickets, worker)) { try await store.start(changed($0), by: $1) }
    }
    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try await call((results, worker)) { try await store.finish(changed($0), by: $1) }
    }
    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        try await call(ids) { try await store.cancel($0) }
    }
    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await call((ids, limit)) { try await store.retry($0, limit: changed($1)) }
    }
    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        try await call(ids) { try await store.endBackoff($0) }
    }
    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await call((isPaused, queue)) { try await store.setPaused($0, queue: $1) }
    }
    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        try await call(filter) { try await store.find(changed($0)) }
    }
    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        try await call(ids) { try await store.explain($0) }
    }
    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await call(queue) { try await store.workers(of: $0) }
    }
    func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await call(queue) { try await store.count(queue: $0) }
    }
    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        try await call((retention, limit)) { try await store.prune(changed($0), limit: $1) }
    }
    func changes() -> AsyncStream<Void> { changed(store.changes()) }
    var nodeTime: Int64 { store.nodeTime }
    var executor: (any TaskExecutor)? { store.executor }
}
