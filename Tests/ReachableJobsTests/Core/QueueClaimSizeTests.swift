import Foundation
import ReachableRetry
import Testing

@testable import ReachableJobs

/// The sizes of a worker's claims from a queue that always has more jobs.
struct QueueClaimSizeTests {
    /// A worker, the jobs of the store, and those that wait on its bus.
    private struct Worker {
        var core = QueueCore()
        var batches: [StoreBatch] = []
        var waiting: [JobTicket] = []
        /// The sizes of its claims.
        var claimed: [Int] = []
        private let worker = WorkerID(rawValue: 1)
        private var pushed: Int64 = 0

        init() {
            core.register(QueueCore.Kind(versions: [1], limit: nil, maxAttempts: nil), name: "kind")
            send(.began(nodeOffset: 0))
            send(.conditions(QueueCore.KindScope(kind: "kind", scope: "internet"), isOpen: true, isEdge: false))
        }

        mutating func send(_ event: QueueCore.Event) {
            for effect in core.handle(event, at: BusTime(nanoseconds: 0), room: { (Room(), $0.map { _ in Room() }) }) {
                switch effect {
                case .batch(let batch): batches.append(batch)
                case .run(let claimed): waiting.append(claimed.ticket)
                default: break
                }
            }
        }

        /// Starts the first jobs that wait on the bus.
        mutating func start(_ count: Int) {
            let starting = waiting.prefix(count)
            waiting.removeFirst(starting.count)
            for ticket in starting { send(.wantsStart(ticket)) }
        }

        /// Answers a batch: the queue has as many jobs as are asked for, and more.
        mutating func answer() throws {
            let batch = try #require(batches.first)
            batches.removeFirst()
            var reply = StoreBatch.Reply(rest: StoreBatch())
            if batch.registers { reply.worker = worker }
            reply.starts = batch.writes.starts.map { _ in true }
            if batch.expires { reply.expired = ExpiredJobs(jobs: [], next: nil, hasMore: false) }
            if batch.prunes { reply.pruned = 0 }
            if let request = batch.claim {
                var claims = Claims(
                    jobs: [], newLanes: [], isPaused: false, hasMore: true, nextDue: nil, now: StoreInstant(nanoseconds: 0))
                if request.lastKnownLane == 0 {
                    claims.newLanes = [Lane(id: 1, kind: "kind", version: 1, scope: "internet", destination: nil)]
                } else if !request.lanes.isEmpty {
                    claims.jobs = (0..<request.limit).map { _ in job() }
                    claimed.append(claims.jobs.count)
                }
                reply.claims = claims
            }
            send(.batchEnded(reply))
        }

        private mutating func job() -> Claims.Claimed {
            pushed += 1
            let new = NewJob(queue: "default", kind: "kind", payload: Data())
            return Claims.Claimed(
                job: DurableJob(new, position: pushed, now: StoreInstant(nanoseconds: 0), created: Date()), claim: 1)
        }

        /// Ends attempts that run; by default all of them.
        mutating func end(_ count: Int = .max) {
            for job in core.held.values.filter({ $0.phase == .running }).prefix(count) {
                send(.ended(AttemptResult(job.claimed.ticket, .succeeded, counters: .init())))
            }
        }

        /// Answers batches until there is none; `starts` of the waiting jobs start during each.
        mutating func run(batches count: Int, starting starts: Int) throws {
            for _ in 0..<count {
                guard !batches.isEmpty else { return }
                start(starts)
                try answer()
                end()
            }
        }
    }

    @Test func claimsGrowWhileAllJobsStartAtOnce() throws {
        var worker = Worker()
        try worker.run(batches: 40, starting: .max)
        #expect(worker.claimed.first == 64)
        #expect(worker.core.waitingLimit == 512)
        #expect(worker.claimed.suffix(10).allSatisfy { $0 > 128 }, "\(worker.claimed)")
    }

    /// A machine that is busy starts some of them a little later.
    @Test func claimsStayLargeWhileHalfOfThoseThatWaitStart() throws {
        var worker = Worker()
        try worker.run(batches: 40, starting: .max)
        let before = worker.claimed.count
        for _ in 0..<20 { try worker.run(batches: 1, starting: max(1, worker.waiting.count / 2)) }
        #expect(worker.claimed.count > before)
        #expect(worker.core.waitingLimit == 512)
    }

    @Test func claimsAreSmallAgainWhenTheBusHoldsJobsBack() throws {
        var worker = Worker()
        try worker.run(batches: 40, starting: .max)
        for _ in 0..<600 { try worker.run(batches: 1, starting: 1) }
        #expect(worker.core.waitingLimit == 64)
        #expect(worker.waiting.count <= 64)
    }

    /// The bus runs 750 at a time, and the worker holds a thousand.
    @Test func claimsAreSmallAgainWhenTheWindowIsFull() throws {
        var worker = Worker()
        var running = 0
        for _ in 0..<2000 {
            let starting = min(750 - running, worker.waiting.count)
            worker.start(starting)
            running += starting
            if worker.batches.isEmpty {
                worker.end(1)
                running -= 1
            } else {
                try worker.answer()
            }
        }
        #expect(running >= 700)
        #expect(worker.core.waitingLimit == 64)
    }
}
