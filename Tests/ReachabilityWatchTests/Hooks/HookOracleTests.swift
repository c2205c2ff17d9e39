import ReachabilityTesting
import Testing

@testable import CommandKit

/// The queue of hooks against a history that forgets nothing, on random scripts.
struct HookOracleTests {
    /// All transitions ever submitted, in one list.
    private struct Oracle {
        struct Entry {
            var scope: Int
            var number: UInt64
            var isSettled = false
        }

        static let limit = Duration.seconds(5)

        var history: [Entry] = []
        /// The programs begin with the present one; it waits until a time if it could not be started.
        var running: (entry: Entry, programs: [String], since: Duration, first: Duration, isTerminated: Bool, pause: Duration?)?
        var isStopped = false
        var counts = HookCounts()

        mutating func submit(_ scope: Int, _ number: UInt64) {
            // An older transition that still waits is out of date.
            for index in history.indices where history[index].scope == scope && !history[index].isSettled {
                history[index].isSettled = true
                counts.dropped += 1
                // The newest one waits where the oldest one did.
                history[index] = Entry(scope: scope, number: number)
                return
            }
            if !isStopped { history.append(Entry(scope: scope, number: number)) }
        }

        mutating func stop() {
            for index in history.indices { history[index].isSettled = true }
            isStopped = true
        }

        /// Returns the next program to start, if one is due.
        mutating func next(_ programs: [String], at now: Duration) -> HookQueue.Effect? {
            guard running == nil, let index = history.firstIndex(where: { !$0.isSettled }) else { return nil }
            history[index].isSettled = true
            return begin(history[index], programs, at: now)
        }

        mutating func begin(
            _ entry: Entry, _ programs: [String], first: Duration? = nil, at now: Duration
        ) -> HookQueue.Effect? {
            running = nil
            guard let program = programs.first, !isStopped else { return nil }
            if isOld(entry) {
                counts.dropped += 1
                return nil
            }
            running = (entry, programs, now, first ?? now, false, nil)
            return .start(program, .numbered(entry.number))
        }

        /// Ends the running program; returns the start of the next one.
        mutating func end(_ outcome: HookQueue.Outcome, at now: Duration) -> HookQueue.Effect? {
            guard let running, running.pause == nil else { return nil }
            switch outcome {
            case _ where running.isTerminated: if isLate { counts.timedOut += 1 }
            case .succeeded: counts.succeeded += 1
            case .refused: counts.refused += 1
            case .skipped: break
            case .notStarted where now - running.first < Self.limit:
                self.running?.pause = now + .seconds(1)
                return nil
            case .failed, .notStarted: counts.failed += 1
            }
            return begin(running.entry, Array(running.programs.dropFirst()), at: now)
        }

        /// Ends a pause that is over, or whose transition is out of date.
        mutating func resume(at now: Duration) -> HookQueue.Effect? {
            guard let running, let pause = running.pause, now >= pause || isStopped || isOld(running.entry) else { return nil }
            return begin(running.entry, running.programs, first: running.first, at: now)
        }

        mutating func terminate(at now: Duration) -> HookQueue.Effect? {
            guard let running, running.pause == nil, !running.isTerminated, isStopped || now - running.since >= Self.limit
            else { return nil }
            self.running?.isTerminated = true
            isLate = !isStopped
            return .terminate(running.programs[0], isLate: isLate)
        }

        private var isLate = false

        private func isOld(_ entry: Entry) -> Bool { history.contains { $0.scope == entry.scope && !$0.isSettled } }
    }

    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func randomScriptsGiveTheSameStarts(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for script in 0..<400 {
            var (queue, oracle, now, number) = (HookQueue(timeLimit: Oracle.limit), Oracle(), Duration.zero, UInt64(0))
            var reported = 0
            for step in 0..<60 {
                now += .milliseconds(Int64(random.next() % 1500))
                let programs = Array(["a", "b", "c"].prefix(Int(random.next() % 4)))
                var expected: [HookQueue.Effect?] = []
                switch random.next() % 16 {
                case 0..<9:
                    number += oracle.isStopped ? 0 : 1
                    let scope = Int(random.next() % 3)
                    queue.submit(number, scope: scope)
                    oracle.submit(scope, number)
                case 15 where step > 40:
                    queue.stop()
                    oracle.stop()
                default:
                    let outcomes: [HookQueue.Outcome] = [.succeeded, .failed, .refused, .skipped, .notStarted]
                    let outcome = outcomes[Int(random.next() % 5)]
                    queue.ended(outcome)
                    expected.append(oracle.end(outcome, at: now))
                }
                expected += [oracle.resume(at: now), oracle.terminate(at: now)]
                var effects: [HookQueue.Effect] = []
                repeat { effects += queue.step(queue.needsPrograms ? programs : nil, at: now) } while queue.needsPrograms
                // A turn without programs makes room for the next one.
                while oracle.running == nil, oracle.history.contains(where: { !$0.isSettled }) {
                    expected.append(oracle.next(programs, at: now))
                }
                let place = "seed \(seed), script \(script), step \(step)"
                for case .reportDrops(let count) in effects { reported += count }
                let others = effects.filter { if case .reportDrops = $0 { false } else { true } }
                #expect(others == expected.compactMap(\.self), "\(place)")
                #expect(queue.counts == oracle.counts && queue.count == Int(number), "\(place)")
                #expect(reported <= oracle.counts.dropped, "\(place)")
                #expect(queue.isFinished == (oracle.isStopped && oracle.running == nil), "\(place)")
            }
        }
    }
}
