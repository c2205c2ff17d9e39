import ReachableRetry
import TestSupport
import Testing

@testable import ReachableJobs

/// Random histories of two workers with crashes, stops, shutdowns, clock steps, failing stores and lost networks.
@Suite(.computing) struct QueueHistoryTests {
    /// Runs one history; throws the first broken promise with what led to it.
    private func run(seed: UInt64, steps: Int = 80) throws -> QueueWorld {
        // Every third history has a bus with one place.
        var world = QueueWorld(workers: 2, seed: seed, places: seed % 3 == 2 ? 1 : .max)
        var generator = SplitMix64(seed: seed &* 0x9e37_79b9)
        var trail: [String] = []
        do {
            for number in 0..<2 { try world.begin(number) }
            for _ in 0..<steps {
                if world.ids.count < 3, Int.random(in: 0..<12, using: &generator) == 0 {
                    trail.append("push")
                    try push(&world, &generator)
                } else if let step = step(world, &generator) {
                    trail.append("\(step)")
                    try world.play(step)
                }
            }
            try world.finish()
        } catch {
            throw QueueWorld.Broken(
                description: "seed \(seed): \(error); after: \(trail.suffix(60).joined(separator: ", "))")
        }
        return world
    }

    private func push(_ world: inout QueueWorld, _ generator: inout SplitMix64) throws {
        let keys: [String?] = ["a", "a", nil]
        let uniques: [JobQueue.Unique?] = [nil, nil, .keep("u"), .replace("u"), .append("u")]
        let key = keys.randomElement(using: &generator) ?? nil
        let unique = uniques.randomElement(using: &generator) ?? nil
        let crashes = [0, 0, 0, 2, 3].randomElement(using: &generator) ?? 0
        // A failure would stop the jobs behind it.
        let isRepeatable = key != nil || Bool.random(using: &generator)
        try world.push(serialKey: key, unique: unique, crashes: isRepeatable ? crashes : 0, isRepeatable: isRepeatable)
    }

    private func step(_ world: QueueWorld, _ generator: inout SplitMix64) -> QueueWorld.Step? {
        let worker = Int.random(in: 0..<2, using: &generator)
        switch Int.random(in: 0..<92, using: &generator) {
        case 0..<6: return .failBatch(worker, after: Int.random(in: 0..<4, using: &generator))
        case 6..<30:
            let tickets = world.workers[worker].tasks.keys.sorted { $0.claim < $1.claim }
            guard let ticket = tickets.randomElement(using: &generator), let job = world.ids.firstIndex(of: ticket.id)
            else { return nil }
            return .advance(worker, job: job, claim: ticket.claim, succeeds: Bool.random(using: &generator))
        case 30..<34: return .setOpen(worker, false)
        case 34..<39: return .setOpen(worker, true)
        case 39, 40: return .wait([1, 5, 12].randomElement(using: &generator) ?? 1)
        case 41: return .suspend(25)
        case 42: return .wait(31)
        case 43, 44: return .crash(worker)
        case 45: return .reboot
        case 46: return .setStopped(worker, true)
        case 47: return .setStopped(worker, false)
        case 48: return .shutDown(worker, drain: [0, 3].randomElement(using: &generator) ?? 0)
        case 49: return .stepClock([-1_000_000_000, 1_000_000_000].randomElement(using: &generator) ?? 0)
        case 50 where !world.ids.isEmpty: return .cancel(Int.random(in: 0..<world.ids.count, using: &generator))
        default: return .endBatch(worker)
        }
    }

    /// `QUEUE_HISTORIES` sets the number of histories per case, for longer runs.
    @Test(arguments: 0..<8 as Range<UInt64>) func promisesHoldInRandomHistories(part: UInt64) throws {
        let count = variable("QUEUE_HISTORIES") ?? UInt64(250)
        for seed in part * count..<(part + 1) * count { _ = try run(seed: seed) }
    }

    /// Runs the first job's attempt at a worker.
    private func startFirst(_ world: inout QueueWorld) throws {
        try world.begin(0)
        while world.workers[0].tasks.values.first?.stage != .running {
            try world.endBatch(of: 0)
            if let (ticket, task) = world.workers[0].tasks.first, task.stage == .waiting {
                try world.step(ticket, of: 0, succeeds: true)
            }
        }
    }

    @Test func aSuspensionCancelsNoAttemptWhoseLeaseHolds() throws {
        var world = QueueWorld(workers: 1, seed: 1)
        try world.push()
        try startFirst(&world)
        try world.suspend(for: 3600)
        #expect(world.workers[0].tasks.values.map(\.isCancelled) == [false])
        try world.endBatch(of: 0)
        #expect(world.workers[0].tasks.values.map(\.isCancelled) == [false])
        // Without a store to renew the lease the attempt ends.
        try world.advance(by: 10)
        try world.endBatch(of: 0, failingAfter: 0)
        try world.suspend(for: 3600)
        #expect(world.workers[0].tasks.values.map(\.isCancelled) == [true])
        try world.finish()
        #expect(world.job(world.ids[0])?.counters.started == 2)
    }

    /// A claim asked for nothing, because the worker was full; neither the bus nor the store tells of room that comes meanwhile.
    @Test func roomThatComesDuringAClaimIsUsed() throws {
        var world = QueueWorld(workers: 1, seed: 1)
        for _ in 0..<QueueWorld.window { try world.push() }
        try world.begin(0)
        while world.workers[0].batch != nil { try world.endBatch(of: 0) }
        try world.push()
        #expect(world.workers[0].batch?.claim?.limit == 0)
        for ticket in world.workers[0].tasks.keys { try world.failToDecode(ticket, of: 0) }
        try world.endBatch(of: 0)
        #expect(world.workers[0].batch?.claim?.limit == QueueWorld.window)
    }

    /// An attempt whose lease was lost keeps its place on the bus until it ends.
    @Test func placeOfALostClaimIsUsedWhenItIsFree() throws {
        var world = QueueWorld(workers: 2, seed: 1, places: 1)
        for _ in 0..<2 { try world.push() }
        try startFirst(&world)
        try world.setStopped(true, of: 0)
        try world.advance(by: 31)
        // A worker without a network finds the end of the lease.
        try world.setOpen(false, of: 1)
        try world.begin(1)
        while world.workers[1].batch != nil { try world.endBatch(of: 1) }
        try world.setStopped(false, of: 0)
        while world.workers[0].batch != nil { try world.endBatch(of: 0) }
        // A heartbeat that had no room to claim.
        try world.advance(by: 10)
        try world.endBatch(of: 0)
        let leaving = try #require(world.workers[0].core.leaving.first)
        #expect(world.workers[0].core.lacksRoom)
        try world.step(leaving, of: 0, succeeds: true)
        #expect(world.workers[0].batch?.claim?.limit == 1)
    }

    /// Overlaps, crashes and refusals do occur: the histories are not all harmless.
    @Test func someHistoriesHaveOverlaps() throws {
        for seed in 0..<400 as Range<UInt64> where try run(seed: seed, steps: 200).overlaps > 0 { return }
        Issue.record("no history has two attempts of one job")
    }
}
