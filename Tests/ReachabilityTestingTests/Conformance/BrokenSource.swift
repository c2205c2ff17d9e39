import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import Testing

/// A source that breaks one promise.
struct BrokenSource: Sendable, CustomTestStringConvertible {
    /// What a source is made with.
    struct Means: Sendable {
        let network = SimulatedNetwork.online(hasIPv6: true)
        let listener = Listener()
        /// Tells that nothing good can come any more, so that nobody needs to wait for it.
        let sin: @Sendable () -> Void
        /// What would hang for ever hangs until then.
        let release = Release()

        var source: WarpedSource { WarpedSource(network) }
        var batch: NetworkEventBatch { NetworkEventBatch(now: network.clock.now.offset, wallTime: .zero) }
    }

    final class Release: Sendable {
        private let isDue = Atomic(false)
        func now() { isDue.store(true, ordering: .releasing) }
        func awaitByYielding() { while !isDue.load(ordering: .acquiring) { sched_yield() } }
    }

    let testDescription: String
    let promise: NetworkSourceConformance.Promise
    /// Whether it is found because something does not come.
    let isAbsence: Bool
    let make: @Sendable (Means) -> WarpedSource

    init(
        _ description: String, breaks promise: NetworkSourceConformance.Promise, byAbsence isAbsence: Bool = false,
        _ make: @escaping @Sendable (Means) -> WarpedSource
    ) {
        testDescription = description
        self.promise = promise
        self.isAbsence = isAbsence
        self.make = make
    }

    static let all: [BrokenSource] = deliveries + wakeUps + pauses + answers + endings
}

extension BrokenSource {
    private static let deliveries: [BrokenSource] = [
        BrokenSource("never begins", breaks: .beginning, byAbsence: true) { means in
            var source = means.source
            source.running = { _ in
                means.sin()
                try await means.network.run { _ in nil }
            }
            return source
        },
        BrokenSource("fails to begin", breaks: .beginning) { means in
            var source = means.source
            source.running = { _ in throw ReachabilityError(.requestFailed, operation: "run") }
            return source
        },
        BrokenSource("delivers from within `deliver`", breaks: .serialDelivery) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = { if means.listener.isHere { means.listener.call(means.batch) } else { means.network.wake() } }
            return source
        },
        BrokenSource("delivers in parallel", breaks: .serialDelivery) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = {
                let isElsewhere = means.listener.isAnywhere && !means.listener.isHere
                if isElsewhere { means.listener.call(means.batch) } else { means.network.wake() }
            }
            return source
        },
        BrokenSource("turns time back", breaks: .time) { means in
            let count = Counter()
            var source = means.source
            source.pass { batch, deliver in
                var batch = batch
                batch.now = .seconds(-count.next())
                return deliver(batch)
            }
            return source
        },
    ]

    private static let wakeUps: [BrokenSource] = [
        BrokenSource("cannot be woken", breaks: .wakeUps, byAbsence: true) { means in
            var source = means.source
            source.waking = { means.sin() }
            return source
        },
        BrokenSource("loses a wake-up by another thread while it delivers", breaks: .wakeUps, byAbsence: true) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = {
                let isElsewhere = means.listener.isAnywhere && !means.listener.isHere
                if isElsewhere { means.sin() } else { means.network.wake() }
            }
            return source
        },
        BrokenSource("loses a wake-up from within `deliver`", breaks: .wakeUps, byAbsence: true) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = { if means.listener.isHere { means.sin() } else { means.network.wake() } }
            return source
        },
    ]

    private static let pauses: [BrokenSource] = [
        BrokenSource("forgets pauses", breaks: .pauses, byAbsence: true) { means in
            var source = means.source
            source.pass { batch, deliver in
                if deliver(batch) != nil { means.sin() }
                return nil
            }
            return source
        },
        BrokenSource("cuts pauses short", breaks: .pauses) { means in
            var source = means.source
            source.pass { batch, deliver in deliver(batch).map { $0 / 10 } }
            return source
        },
        BrokenSource("keeps to a pause that was replaced by a shorter one", breaks: .pauses, byAbsence: true) { means in
            let longest = Longest()
            var source = means.source
            source.pass { batch, deliver in
                let pause = deliver(batch)
                let kept = longest.note(pause)
                if kept != pause { means.sin() }
                return kept
            }
            return source
        },
    ]

    private static let answers: [BrokenSource] = [
        BrokenSource("answers only while it runs", breaks: .questions) { means in
            var source = means.source
            source.askingInterfaces = { () throws(ReachabilityError) in
                guard means.network.isRunning else { throw ReachabilityError(.requestFailed, operation: "interfaces") }
                return try means.network.interfaces()
            }
            return source
        },
        BrokenSource("never answers", breaks: .questions, byAbsence: true) { means in
            var source = means.source
            source.askingRoute = { query throws(ReachabilityError) in
                means.sin()
                means.release.awaitByYielding()
                return try means.network.route(to: query)
            }
            return source
        },
        BrokenSource("changes its mind", breaks: .stability) { means in
            let count = Counter()
            var source = means.source
            source.askingRoute = { _ throws(ReachabilityError) in .refused(errno: Int32(count.next())) }
            return source
        },
        BrokenSource("is deaf to changes", breaks: .announcements, byAbsence: true) { means in
            var source = means.source
            source.pass { batch, deliver in
                var batch = batch
                if !batch.events.isEmpty { means.sin() }
                batch.events = []
                return deliver(batch)
            }
            return source
        },
        BrokenSource("answers as before a change", breaks: .announcements, byAbsence: true) { means in
            let kernel = means.network.kernel
            var source = means.source
            source.pass { batch, deliver in
                if !batch.events.isEmpty { means.sin() }
                return deliver(batch)
            }
            source.askingInterfaces = { () throws(ReachabilityError) in kernel.interfaces }
            source.askingRoute = { query throws(ReachabilityError) in kernel.route(to: query) }
            return source
        },
    ]

    private static let endings: [BrokenSource] = [
        BrokenSource("ignores cancellation", breaks: .cancellation, byAbsence: true) { means in
            var source = means.source
            source.running = { deliver in
                try Task.checkCancellation()
                try await withTaskCancellationHandler {
                    try await Task { try await means.network.run(deliver: deliver) }.value
                } onCancel: {
                    means.sin()
                }
            }
            return source
        },
        BrokenSource("ignores that it was cancelled before", breaks: .cancellation, byAbsence: true) { means in
            var source = means.source
            source.running = { deliver in
                guard Task.isCancelled else { return try await means.network.run(deliver: deliver) }
                means.sin()
                try await Task { try await means.network.run(deliver: deliver) }.value
            }
            return source
        },
        BrokenSource("hides that it was cancelled", breaks: .cancellation) { means in
            var source = means.source
            source.running = { try? await means.network.run(deliver: $0) }
            return source
        },
        BrokenSource("delivers after its end", breaks: .silenceAfterEnd) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = {
                if means.network.isRunning { means.network.wake() } else { means.listener.callAlone(means.batch) }
            }
            return source
        },
        BrokenSource("ends while it delivers", breaks: .silenceAfterEnd, byAbsence: true) { means in
            let (ends, end) = AsyncStream.makeStream(of: Void.self)
            var source = means.source
            source.running = { deliver in
                _ = means.listener.deliver(means.batch, deliver)
                for await _ in ends {}
                throw CancellationError()
            }
            source.waking = {
                guard means.listener.isHere else { return detachThread { means.listener.call(means.batch) } }
                means.sin()
                end.finish()
                means.release.awaitByYielding()
            }
            return source
        },
    ]
}

/// Counts from 1.
private final class Counter: Sendable {
    private let count = Atomic(0)
    func next() -> Int { count.add(1, ordering: .relaxed).newValue }
}

/// The longest of some durations.
private final class Longest: Sendable {
    private let value = Mutex<Duration?>(nil)

    func note(_ duration: Duration?) -> Duration? {
        value.withLock { value in
            value = [value, duration].compactMap(\.self).max()
            return value
        }
    }
}
