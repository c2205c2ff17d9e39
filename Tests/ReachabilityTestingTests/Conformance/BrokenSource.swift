import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

/// A source that violates one requirement.
struct BrokenSource: Sendable, CustomTestStringConvertible {
    /// The parts of a broken source.
    struct Means: Sendable {
        let network = SimulatedNetwork.online(hasIPv6: true)
        let listener = Listener()
        /// Signals the violation, so that the test need not wait for the missing event.
        let signalViolation: @Sendable () -> Void
        /// Ends calls that would hang forever.
        let release = Release()

        var source: WarpedSource { WarpedSource(network) }
        var batch: NetworkEventBatch { NetworkEventBatch(now: BootInstant(sinceBoot: network.clock.now.offset), wallTime: .zero) }
    }

    final class Release: Sendable {
        private let isDue = Atomic(false)
        func now() { isDue.store(true, ordering: .releasing) }
        func awaitByYielding() { while !isDue.load(ordering: .acquiring) { sched_yield() } }
    }

    let testDescription: String
    let requirement: NetworkSourceConformance.Requirement
    /// True if the violation is a missing event.
    let isAbsence: Bool
    let make: @Sendable (Means) -> WarpedSource

    init(
        _ description: String, violates requirement: NetworkSourceConformance.Requirement, byAbsence isAbsence: Bool = false,
        _ make: @escaping @Sendable (Means) -> WarpedSource
    ) {
        testDescription = description
        self.requirement = requirement
        self.isAbsence = isAbsence
        self.make = make
    }

    static let all: [BrokenSource] = deliveries + wakeUps + pauses + answers + lookups + dumps + endings
}

extension BrokenSource {
    private static let deliveries: [BrokenSource] = [
        BrokenSource("never begins", violates: .beginning, byAbsence: true) { means in
            var source = means.source
            source.running = { _ in
                means.signalViolation()
                try await means.network.run { _ in nil }
            }
            return source
        },
        BrokenSource("fails to begin", violates: .beginning) { means in
            var source = means.source
            source.running = { _ in throw ReachabilityError(.requestFailed, operation: "run") }
            return source
        },
        BrokenSource("delivers from within `deliver`", violates: .serialDelivery) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = { if means.listener.isHere { means.listener.call(means.batch) } else { means.network.wake() } }
            return source
        },
        BrokenSource("delivers in parallel", violates: .serialDelivery) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = {
                let isElsewhere = means.listener.isAnywhere && !means.listener.isHere
                if isElsewhere { means.listener.call(means.batch) } else { means.network.wake() }
            }
            return source
        },
        BrokenSource("moves time backwards", violates: .time) { means in
            let count = Counter()
            var source = means.source
            source.pass { batch, deliver in
                var batch = batch
                batch.now = BootInstant(sinceBoot: .seconds(-count.add()))
                return deliver(batch)
            }
            return source
        },
    ]

    private static let wakeUps: [BrokenSource] = [
        BrokenSource("cannot be woken", violates: .wakeUps, byAbsence: true) { means in
            var source = means.source
            source.waking = { means.signalViolation() }
            return source
        },
        BrokenSource("loses a wake-up by another thread while it delivers", violates: .wakeUps, byAbsence: true) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = {
                let isElsewhere = means.listener.isAnywhere && !means.listener.isHere
                if isElsewhere { means.signalViolation() } else { means.network.wake() }
            }
            return source
        },
        BrokenSource("loses a wake-up from within `deliver`", violates: .wakeUps, byAbsence: true) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = { if means.listener.isHere { means.signalViolation() } else { means.network.wake() } }
            return source
        },
    ]

    private static let pauses: [BrokenSource] = [
        BrokenSource("forgets pauses", violates: .pauses, byAbsence: true) { means in
            var source = means.source
            source.pass { batch, deliver in
                if deliver(batch) != nil { means.signalViolation() }
                return nil
            }
            return source
        },
        BrokenSource("cuts pauses short", violates: .pauses) { means in
            var source = means.source
            source.pass { batch, deliver in deliver(batch).map { $0 / 10 } }
            return source
        },
        BrokenSource("keeps a pause that a shorter one replaced", violates: .pauses, byAbsence: true) { means in
            let longest = Longest()
            var source = means.source
            source.pass { batch, deliver in
                let pause = deliver(batch)
                let kept = longest.note(pause)
                if kept != pause { means.signalViolation() }
                return kept
            }
            return source
        },
    ]

    private static let answers: [BrokenSource] = [
        BrokenSource("answers only while it runs", violates: .questions) { means in
            var source = means.source
            source.askingInterfaces = { () throws(ReachabilityError) in
                guard means.network.isRunning else { throw ReachabilityError(.requestFailed, operation: "interfaces") }
                return try means.network.interfaces()
            }
            return source
        },
        BrokenSource("never answers", violates: .questions, byAbsence: true) { means in
            var source = means.source
            source.askingRoutes = { queries in
                means.signalViolation()
                means.release.awaitByYielding()
                return means.network.routes(to: queries)
            }
            return source
        },
        BrokenSource("gives different answers", violates: .stability) { means in
            let count = Counter()
            var source = means.source
            source.askingRoutes = { queries in
                queries.map { _ in .success(.refused(errno: Int32(count.add()))) }
            }
            return source
        },
        BrokenSource("does not announce changes", violates: .announcements, byAbsence: true) { means in
            var source = means.source
            source.pass { batch, deliver in
                var batch = batch
                if !batch.events.isEmpty { means.signalViolation() }
                batch.events = []
                return deliver(batch)
            }
            return source
        },
        BrokenSource("ignores changes", violates: .announcements, byAbsence: true) { means in
            let kernel = means.network.kernel
            var source = means.source
            source.pass { batch, deliver in
                if !batch.events.isEmpty { means.signalViolation() }
                return deliver(batch)
            }
            source.askingInterfaces = { () throws(ReachabilityError) in kernel.interfaces }
            source.askingRoutes = { queries in queries.map { .success(kernel.route(to: $0)) } }
            return source
        },
    ]

    private static let lookups: [BrokenSource] = [
        BrokenSource("answers in another order", violates: .results) { means in
            var source = means.source
            source.askingRoutes = { means.network.routes(to: $0).reversed() }
            return source
        },
        BrokenSource("answers only the first query", violates: .results) { means in
            var source = means.source
            source.askingRoutes = { Array(means.network.routes(to: $0).prefix(1)) }
            return source
        },
        BrokenSource("reports a refusal as a failure", violates: .refusals) { means in
            var source = means.source
            source.askingRoutes = { queries in
                means.network.routes(to: queries).map { result in
                    guard case .success(.refused(let errno)) = result else { return result }
                    return .failure(ReachabilityError(.requestFailed, errno: errno, operation: "RTM_GETROUTE"))
                }
            }
            return source
        },
        BrokenSource("ignores the source of a query", violates: .sources) { means in
            var source = means.source
            source.askingRoutes = { queries in
                means.network.routes(to: queries.map { if case .address = $0.source { $0.from(.unspecified) } else { $0 } })
            }
            return source
        },
        BrokenSource("does not repeat the source of a query", violates: .sources) { means in
            var source = means.source
            source.askingRoutes = { queries in
                zip(queries, means.network.routes(to: queries)).map { query, result in
                    guard case .address = query.source, case .success(.route(var route)) = result else { return result }
                    route.source = nil
                    return .success(.route(route))
                }
            }
            return source
        },
        BrokenSource("cannot select a source", violates: .selection) { means in
            var source = means.source
            source.askingRoutes = { queries in
                queries.flatMap { query -> [Result<RouteVerdict, ReachabilityError>] in
                    guard query.source == .selected else { return means.network.routes(to: [query]) }
                    return [.failure(ReachabilityError(.requestFailed, errno: EINVAL, operation: "RTM_GETROUTE"))]
                }
            }
            return source
        },
        BrokenSource("selects no source", violates: .selection) { means in
            var source = means.source
            source.askingRoutes = { queries in
                zip(queries, means.network.routes(to: queries)).map { query, result in
                    guard query.source == .selected, case .success(.route(var route)) = result else { return result }
                    route.source = nil
                    return .success(.route(route))
                }
            }
            return source
        },
    ]

    private static let dumps: [BrokenSource] = [
        BrokenSource("repeats an interrupted dump", violates: .interruptions) { means in
            var source = means.source
            source.askingInterfaces = { () throws(ReachabilityError) in
                while true {
                    do throws(ReachabilityError) {
                        return try means.network.interfaces()
                    } catch {
                        if error.code != .interrupted { throw error }
                    }
                }
            }
            return source
        },
        BrokenSource("reports an interruption as a failure", violates: .interruptions) { means in
            var source = means.source
            source.askingInterfaces = { () throws(ReachabilityError) in
                do throws(ReachabilityError) {
                    return try means.network.interfaces()
                } catch {
                    throw ReachabilityError(.requestFailed, errno: EINTR, operation: error.operation)
                }
            }
            return source
        },
        BrokenSource("sleeps after an interruption", violates: .interruptions, byAbsence: true) { means in
            var source = means.source
            source.askingInterfaces = { () throws(ReachabilityError) in
                do throws(ReachabilityError) {
                    return try means.network.interfaces()
                } catch {
                    means.signalViolation()
                    means.release.awaitByYielding()
                    throw error
                }
            }
            return source
        },
    ]

    private static let endings: [BrokenSource] = [
        BrokenSource("ignores cancellation", violates: .cancellation, byAbsence: true) { means in
            var source = means.source
            source.running = { deliver in
                try Task.checkCancellation()
                try await withTaskCancellationHandler {
                    try await Task { try await means.network.run(deliver: deliver) }.value
                } onCancel: {
                    means.signalViolation()
                }
            }
            return source
        },
        BrokenSource("ignores an earlier cancellation", violates: .cancellation, byAbsence: true) { means in
            var source = means.source
            source.running = { deliver in
                guard Task.isCancelled else { return try await means.network.run(deliver: deliver) }
                means.signalViolation()
                try await Task { try await means.network.run(deliver: deliver) }.value
            }
            return source
        },
        BrokenSource("hides its cancellation", violates: .cancellation) { means in
            var source = means.source
            source.running = { try? await means.network.run(deliver: $0) }
            return source
        },
        BrokenSource("delivers after its end", violates: .silenceAfterEnd) { means in
            var source = means.source
            source.pass { means.listener.deliver($0, $1) }
            source.waking = {
                if means.network.isRunning { means.network.wake() } else { means.listener.callAlone(means.batch) }
            }
            return source
        },
        BrokenSource("ends while it delivers", violates: .silenceAfterEnd, byAbsence: true) { means in
            let (ends, end) = AsyncStream.makeStream(of: Void.self)
            var source = means.source
            source.running = { deliver in
                _ = means.listener.deliver(means.batch, deliver)
                for await _ in ends {}
                throw CancellationError()
            }
            source.waking = {
                guard means.listener.isHere else { return detachThread { means.listener.call(means.batch) } }
                means.signalViolation()
                end.finish()
                means.release.awaitByYielding()
            }
            return source
        },
    ]
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
