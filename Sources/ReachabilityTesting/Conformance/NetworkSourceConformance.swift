internal import Glibc
public import Reachability
internal import Synchronization

/// A suite that checks a custom `NetworkSource` against the requirements of the protocol.
///
/// It needs no testing library. It checks each requirement on a new ``Candidate``, which it runs, wakes, asks from many
/// threads, changes and cancels:
///
/// ```swift
/// @Test func mySourceMeetsTheRequirements() async throws {
///     let conformance = NetworkSourceConformance {
///         let network = MyNetwork()
///         return .init(network, changes: [{ try await network.dropDefaultRoute() }])
///     }
///     try await conformance.check()
/// }
/// ```
///
/// It reports each violation as a text; the suite itself never traps and never waits longer than its patience in one place. A
/// call that does not return cannot be cancelled: its task or thread stays behind. Safe to use from any thread.
public struct NetworkSourceConformance: Sendable {
    /// A violated requirement.
    public typealias Violation = ConformanceViolation<Requirement>
    /// The error of ``check()``: all violations.
    public typealias Failure = ConformanceFailure<Requirement>

    let exemptions: Set<Requirement>
    let patience: Duration
    let sleep: @Sendable (Duration) async throws -> Void
    let makeCandidate: @Sendable () async throws -> Candidate

    /// Makes a suite.
    ///
    /// - Parameters:
    ///   - exemptions: The requirements that the source's documentation excludes, such as ``Requirement/pauses`` for a replay.
    ///   - patience: The time limit for each expected event. Only a broken source exhausts it.
    ///   - clock: The clock of the patience; real time by default, also for a source with its own clock.
    ///   - makeCandidate: Makes a new source that has never run; called about ten times, once for each session.
    public init(
        exempting exemptions: Set<Requirement> = [], patience: Duration = .seconds(60),
        clock: some Clock<Duration> = ContinuousClock(),
        makeCandidate: @escaping @Sendable () async throws -> Candidate
    ) {
        self.exemptions = exemptions
        self.patience = patience
        sleep = { try await clock.sleep(for: $0) }
        self.makeCandidate = makeCandidate
    }

    /// Checks all requirements.
    ///
    /// - Throws: ``Failure`` if a requirement is violated; the errors of making or changing a candidate; `CancellationError`
    ///   when the calling task is cancelled.
    public func check() async throws {
        let violations = try await violations()
        if !violations.isEmpty { throw Failure(violations) }
    }

    /// Returns the violations, at most one of each requirement, in the order of ``Requirement/all``.
    ///
    /// - Parameter requirements: The requirements to check. Violations of others are not returned.
    /// - Throws: The errors of making or changing a candidate; `CancellationError` when the calling task is cancelled.
    public func violations(of requirements: Set<Requirement> = Set(Requirement.all)) async throws -> [Violation] {
        let wanted = requirements.subtracting(exemptions)
        var found: [Requirement: Violation] = [:]
        for session in Self.sessions where !session.requirements.isDisjoint(with: wanted) {
            try Task.checkCancellation()
            for violation in try await session.run(self) where wanted.contains(violation.requirement) {
                found[violation.requirement] = found[violation.requirement] ?? violation
            }
        }
        return Requirement.all.compactMap { found[$0] }
    }

    /// A part of the suite with the requirements that it can find violated.
    private struct Session: Sendable {
        var requirements: Set<Requirement>
        var run: @Sendable (NetworkSourceConformance) async throws -> [Violation]
    }

    /// The requirements that every session observes.
    private static let everywhere: Set<Requirement> = [.beginning, .serialDelivery, .time, .cancellation, .silenceAfterEnd]

    private static let sessions = [
        Session(requirements: everywhere) { try await $0.checkSerialDelivery() },
        Session(requirements: [.wakeUps]) { try await $0.checkWakeUps() },
        Session(requirements: [.pauses]) { try await $0.checkPauses() },
        Session(requirements: [.questions, .stability]) { try await $0.checkQuestions() },
        Session(requirements: [.results]) { try await $0.checkResults() },
        Session(requirements: [.refusals, .sources, .selection]) { try await $0.checkLookups() },
        Session(requirements: [.interruptions]) { try await $0.checkInterruptions() },
        Session(requirements: [.announcements]) { try await $0.checkAnnouncements() },
        Session(requirements: [.cancellation]) { try await $0.checkCancellationWithinDelivery() },
        Session(requirements: [.cancellation]) { try await $0.checkEarlyCancellation() },
        Session(requirements: [.silenceAfterEnd]) { try await $0.checkSilenceAfterEnd() },
    ]
}

extension NetworkSourceConformance {
    /// A requirement of every source.
    ///
    /// Later versions may add more.
    public struct Requirement: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a requirement from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// `run` delivers a first batch by itself.
        public static let beginning = Requirement(rawValue: "beginning")
        /// `deliver` is never called while another call is in progress, neither by another thread nor from within.
        public static let serialDelivery = Requirement(rawValue: "serialDelivery")
        /// The time of the batches never goes backwards.
        public static let time = Requirement(rawValue: "time")
        /// `wake()` leads to a batch, from any thread and at any time.
        public static let wakeUps = Requirement(rawValue: "wakeUps")
        /// A batch comes when the pause that `deliver` returned has passed; an empty batch does not come much earlier.
        public static let pauses = Requirement(rawValue: "pauses")
        /// `interfaces()` and `routes(to:)` answer on any thread at any time: before, during and after a run, and within
        /// `deliver`.
        public static let questions = Requirement(rawValue: "questions")
        /// `routes(to:)` returns one result for each query, in the order of the queries.
        public static let results = Requirement(rawValue: "results")
        /// A refusal is a verdict, not a failure: a query that every kernel refuses is answered.
        public static let refusals = Requirement(rawValue: "refusals")
        /// A route has the source of its query, and IPv4 refuses a source that no interface holds.
        public static let sources = Requirement(rawValue: "sources")
        /// `RouteQuery.Source.selected` is answered like connect(2), or fails with `permissionDenied`.
        public static let selection = Requirement(rawValue: "selection")
        /// An interrupted dump throws `interrupted` at once.
        public static let interruptions = Requirement(rawValue: "interruptions")
        /// The answers stay the same while nothing changes.
        public static let stability = Requirement(rawValue: "stability")
        /// A change is announced, and the answers show it from the batch that announces it.
        public static let announcements = Requirement(rawValue: "announcements")
        /// Cancellation ends `run` soon, with a `CancellationError`.
        public static let cancellation = Requirement(rawValue: "cancellation")
        /// `deliver` is not called after `run` has ended, and no call is in progress when `run` ends.
        public static let silenceAfterEnd = Requirement(rawValue: "silenceAfterEnd")

        /// All requirements.
        public static let all: [Requirement] = [
            .beginning, .serialDelivery, .time, .wakeUps, .pauses, .questions, .results, .refusals, .sources,
            .selection, .interruptions, .stability, .announcements, .cancellation, .silenceAfterEnd,
        ]
    }
}

extension NetworkSourceConformance {
    /// A source to check, and the means to change it.
    public struct Candidate: Sendable {
        /// The source, which has never run.
        public var source: any NetworkSource
        /// The queries to ask.
        public var queries: [RouteQuery]
        /// The pause that `deliver` requests.
        public var pause: Duration
        /// Lets the source's own time pass; `nil` if its time is real.
        public var passTime: (@Sendable (Duration) async throws -> Void)?
        /// The changes to make, one after the other.
        ///
        /// Each must show in the links, their addresses or the answers to ``queries``, and must last. The change has been made
        /// when the closure returns; its event may come before or after that.
        public var changes: [@Sendable () async throws -> Void]

        /// Interrupts the next dump, as a change of links or addresses would (NLM_F_DUMP_INTR, netlink(7)).
        ///
        /// Without it ``Requirement/interruptions`` is not checked.
        public var interruptNextDump: (@Sendable () -> Void)?

        /// Makes a candidate.
        ///
        /// - Parameters:
        ///   - source: The source, which must not have run before.
        ///   - queries: The queries to ask; by default one for a root name server of each family.
        ///   - pause: The pause that `deliver` requests. In real time it must be long compared with thread switches.
        ///   - passTime: Lets the source's own time pass; `nil` if its time is real.
        ///   - changes: Changes to the network; without any, the suite does not check announcements.
        ///   - interruptNextDump: Interrupts the next dump; without it the suite does not check interruptions.
        public init(
            _ source: some NetworkSource, queries: [RouteQuery] = Candidate.defaultQueries, pause: Duration = .milliseconds(100),
            passTime: (@Sendable (Duration) async throws -> Void)? = nil, changes: [@Sendable () async throws -> Void] = [],
            interruptNextDump: (@Sendable () -> Void)? = nil
        ) {
            self.source = source
            self.queries = queries
            self.pause = pause
            self.passTime = passTime
            self.changes = changes
            self.interruptNextDump = interruptNextDump
        }

        /// Routes to 198.41.0.4 and 2001:503:ba3e::2:30, a root name server of each family.
        public static let defaultQueries = [
            RouteQuery(to: IPAddress(family: .ipv4, value: 0xc629_0004)),
            RouteQuery(to: IPAddress(family: .ipv6, value: 0x2001_0503_ba3e << 80 | 0x2_0030)),
        ]
    }
}

/// Checks of the answers from any thread and after changes.
extension NetworkSourceConformance {
    /// Asks from many threads before, during and after the run, and within `deliver`.
    func checkQuestions() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        let (source, probe, candidate) = (session.candidate.source, session.probe, session.candidate)
        guard try await session.answersThreads("before it was run") else { return probe.violations }
        probe.recordAnswers(of: candidate)
        session.start()
        if try await session.begins(), try await session.answersThreads("while it ran") {
            let count = probe.batches.count
            source.wake()
            // Another check looks for this batch; a replay does not send it.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: count) }
            for batch in probe.batches { session.expectAnswer(batch.answers, "within `deliver`") }
        }
        try await session.finish()
        _ = try await session.answersThreads("after its end")
        return probe.violations
    }

    /// Makes each change and waits for its event and new answers.
    func checkAnnouncements() async throws -> [Violation] {
        try await session { session in
            let (probe, candidate) = (session.probe, session.candidate)
            probe.recordAnswers(of: candidate)
            for (position, change) in candidate.changes.enumerated() {
                let before = session.answers
                let count = probe.batches.count
                try await change()
                let isSeen: @Sendable () -> Bool = {
                    probe.batches[count...].contains { $0.hasEvents && $0.answers.map { $0 != before } ?? false }
                }
                guard try await session.waits(until: isSeen) else {
                    let isAnnounced = probe.batches[count...].contains(where: \.hasEvents)
                    let finding =
                        isAnnounced
                        ? "the answers were unchanged in every later batch with events"
                        : "no batch with events came within \(session.patience)"
                    probe.report(.announcements, "change \(position): \(finding)")
                    return
                }
                guard session.answers != before else {
                    probe.report(
                        .announcements, "change \(position): the answers were unchanged again after `deliver` had returned")
                    return
                }
            }
        }
    }
}

extension ConformanceSession {
    /// Asks from several threads at once and compares the answers; returns `true` if all calls return.
    fileprivate func answersThreads(_ occasion: String) async throws -> Bool {
        // An event meanwhile explains different answers; in a private network this happens rarely.
        for _ in 0..<3 {
            let given = AnswerSet()
            let count = probe.batches.count
            let hasReturned = try await inThreads(4) { [candidate] in
                for _ in 0..<8 { given.insert(ConformanceAnswers(candidate)) }
            }
            guard hasReturned else {
                probe.report(
                    .questions, "`interfaces()` or `routes(to:)` \(occasion), by several threads, did not return within \(patience)"
                )
                return false
            }
            for answers in given.values { expectAnswer(answers, occasion) }
            guard given.values.count > 1 else { return true }
            guard probe.batches[count...].contains(where: \.hasEvents) else {
                probe.report(.stability, "different answers to the same queries \(occasion), without an event")
                return true
            }
        }
        return true
    }

    fileprivate func expectAnswer(_ answers: ConformanceAnswers?, _ occasion: String) {
        guard let failure = answers?.failure else { return }
        probe.report(.questions, "`interfaces()` or `routes(to:)` \(occasion) threw: \(failure)")
    }
}

/// The different answers that threads received.
private final class AnswerSet: Sendable {
    private let answers = Mutex<Set<ConformanceAnswers>>([])

    var values: Set<ConformanceAnswers> { answers.withLock(\.self) }

    func insert(_ answers: ConformanceAnswers) { self.answers.withLock { _ = $0.insert(answers) } }
}

/// Checks of single lookups and dumps.
extension NetworkSourceConformance {
    /// Asks the queries in different orders, repeatedly, and an empty list.
    func checkResults() async throws -> [Violation] {
        try await session { session in
            let (source, probe, queries) = (session.candidate.source, session.probe, session.candidate.queries)
            for asked in [queries, queries.reversed(), queries + queries, []] {
                let before = asked.flatMap { source.routes(to: [$0]) }
                let results = source.routes(to: asked)
                let after = asked.flatMap { source.routes(to: [$0]) }
                if results.count != asked.count {
                    probe.report(.results, "`routes(to:)` returned \(results.count) results for \(asked.count) queries")
                    return
                }
                // Another check looks for answers that change meanwhile.
                if before == after && results != before {
                    probe.report(.results, "`routes(to:)` answered \(asked.count) queries together and one by one differently")
                    return
                }
            }
        }
    }

    /// Asks with an unknown interface, with the sources that the kernel chose, and with a foreign source.
    func checkLookups() async throws -> [Violation] {
        try await session { session in
            let plain = session.candidate.queries.filter { $0.source == .unspecified && !$0.fibMatch }
            for query in plain {
                session.expectRefusal(of: query)
                let first = session.verdict(query)
                session.expectSource(query, first)
                session.expectSelection(query, first)
            }
        }
    }

    /// Interrupts a dump.
    func checkInterruptions() async throws -> [Violation] {
        try await session { session in
            guard let interrupt = session.candidate.interruptNextDump else { return }
            let (source, probe) = (session.candidate.source, session.probe)
            let result = Mutex<Result<[NetworkInterface], ReachabilityError>?>(nil)
            interrupt()
            let hasReturned = try await session.inThreads(1) {
                let dump = Result { () throws(ReachabilityError) in try source.interfaces() }
                result.withLock { $0 = dump }
            }
            guard hasReturned else {
                probe.report(.interruptions, "`interfaces()` did not return within \(session.patience) of an interrupted dump")
                return
            }
            switch result.withLock(\.self) {
            case .failure(let error)? where error.code == .interrupted: break
            case .failure(let error)?:
                probe.report(.interruptions, "an interrupted dump threw \(error); it must throw `interrupted`")
            default: probe.report(.interruptions, "an interrupted dump was repeated or accepted; it must throw `interrupted`")
            }
        }
    }
}

extension ConformanceSession {
    fileprivate func ask(_ query: RouteQuery) -> Result<RouteVerdict, ReachabilityError>? {
        candidate.source.routes(to: [query]).first
    }

    /// Returns the verdict on a query; `nil` if there is none.
    fileprivate func verdict(_ query: RouteQuery) -> RouteVerdict? {
        if case .success(let verdict)? = ask(query) { verdict } else { nil }
    }

    /// Expects a query that is bound to an unknown interface to be refused: ENODEV, or ENETUNREACH over IPv6.
    fileprivate func expectRefusal(of query: RouteQuery) {
        var query = query
        query.interface = UInt32(Int32.max)
        switch ask(query) {
        case .success(.refused)?: break
        case .success(.route)?: probe.report(.refusals, "a lookup through an interface that does not exist found a route")
        case .failure(let error)? where error.code == .notRecorded: break
        case .failure(let error)?:
            probe.report(.refusals, "a lookup through an interface that does not exist failed: \(error); it must be refused")
        case nil: probe.report(.refusals, "a lookup through an interface that does not exist had no result")
        }
    }

    /// Expects a route to have the source of its query, and IPv4 to refuse a source that no interface holds.
    fileprivate func expectSource(_ query: RouteQuery, _ first: RouteVerdict?) {
        if case .route(let route)? = first, let source = route.source, !source.isUnspecified,
            case .route(let again)? = verdict(query.from(.address(source))), again.source != source
        {
            let found = again.source.map { "\($0)" } ?? "none"
            probe.report(.sources, "a lookup to \(query.destination) from \(source) found a route with the source \(found)")
        }
        // 192.0.2.255, of TEST-NET-1 (RFC 5737).
        let foreign = IPAddress(family: .ipv4, value: 0xc000_02ff)
        guard query.destination.family == .ipv4, let interfaces = try? candidate.source.interfaces(),
            !interfaces.contains(where: { $0.addresses.contains { $0.address == foreign } }),
            case .route? = verdict(query.from(.address(foreign)))
        else { return }
        probe.report(.sources, "a lookup to \(query.destination) from \(foreign), which no interface holds, found a route")
    }

    /// Expects the verdict of connect(2).
    ///
    /// Over IPv4 it is the answer for the source that the first lookup chose, over IPv6 the route of the first lookup, if it
    /// found one. The route has a source in any case.
    fileprivate func expectSelection(_ query: RouteQuery, _ first: RouteVerdict?) {
        let selected: RouteVerdict
        switch ask(query.from(.selected)) {
        case .success(let verdict)?: selected = verdict
        case .failure(let error)? where [.notRecorded, .permissionDenied].contains(error.code): return
        case .failure(let error)?:
            probe.report(.selection, "a lookup with the source `selected` to \(query.destination) failed: \(error)")
            return
        case nil:
            probe.report(.selection, "a lookup with the source `selected` to \(query.destination) had no result")
            return
        }
        let expected: RouteVerdict? =
            if case .route(let route)? = first, query.destination.family == .ipv4, let source = route.source {
                verdict(query.from(.address(source)))
            } else {
                first
            }
        switch (expected, selected) {
        case (.route(let one)?, .route(let other)):
            guard one.interface == other.interface, let source = other.source, !source.isUnspecified else {
                probe.report(.selection, "a lookup with the source `selected` to \(query.destination) found \(other), not \(one)")
                return
            }
        case (.route?, .refused(let errno)):
            probe.report(.selection, "a lookup with the source `selected` to \(query.destination) was refused (errno \(errno))")
        case (.refused?, .route) where query.destination.family == .ipv4:
            probe.report(
                .selection,
                "a lookup with the source `selected` to \(query.destination) found a route although the first lookup was refused")
        default: break
        }
    }
}

/// Checks of the delivery of batches.
extension NetworkSourceConformance {
    /// The number of times that a delivery yields to other threads, so that violations have time to happen.
    private static let yields = 2000
    /// The most tries to find a time without events.
    private static let quietTries = 5

    /// Wakes the source from several threads during a delivery.
    func checkSerialDelivery() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            let first = probe.batches.count
            probe.react { number in
                guard number <= first + 1 else { return nil }
                source.wake()
                let threads = ThreadGroup(3) { source.wake() }
                Self.giveWay(until: threads)
                for _ in 0..<Self.yields where probe.batches.count <= number + 1 { sched_yield() }
                return nil
            }
            source.wake()
            // Another check looks for this batch; a replay does not send it.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: first + 1) }
        }
    }

    /// Wakes the source once at a time, from a different place each time.
    func checkWakeUps() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            func check(_ place: String, after count: Int) async throws -> Bool {
                if try await session.waitsForBatch(after: count) { return true }
                probe.report(.wakeUps, "no batch came within \(session.patience) of `wake()` \(place)")
                return false
            }
            for place in ["by a task", "by the same task again"] {
                let count = probe.batches.count
                source.wake()
                guard try await check(place, after: count) else { return }
            }
            var count = probe.batches.count
            guard try await session.inThreads(1, { source.wake() }) else {
                probe.report(.wakeUps, "`wake()` by another thread did not return within \(session.patience)")
                return
            }
            guard try await check("by another thread", after: count) else { return }

            let inner = probe.batches.count
            probe.react { number in
                if number == inner { source.wake() }
                return nil
            }
            source.wake()
            guard try await check("before a delivery", after: inner),
                try await check("from within `deliver`", after: inner + 1)
            else { return }

            count = probe.batches.count
            let aside = count
            probe.react { number in
                guard number == aside else { return nil }
                let threads = ThreadGroup(1) { source.wake() }
                Self.giveWay(until: threads)
                return nil
            }
            source.wake()
            guard try await check("before a delivery", after: aside) else { return }
            _ = try await check("by another thread while `deliver` was being called", after: aside + 1)
        }
    }

    /// Requests a pause, another one, and one that replaces a longer one.
    func checkPauses() async throws -> [Violation] {
        try await session { session in
            var early: Duration?
            for _ in 1...Self.quietTries {
                switch try await checkPauses(session) {
                case .ended: return
                // It is open then which batch answers which wake-up: once more.
                case .disturbed: break
                // A clock that was set may be the reason, but not twice.
                case .early(let distance) where early == nil: early = distance
                case .early(let distance):
                    session.probe.report(
                        .pauses, "an empty batch came \(distance) after `deliver` had returned \(session.candidate.pause)")
                    return
                }
                // What the wake-ups and the last pause still bring must not be taken for an answer to the next ones.
                session.probe.react { _ in nil }
                try await session.pass(session.candidate.pause * 2)
            }
        }
    }

    private enum PauseCheck {
        /// The pauses were kept, or a violation has been reported.
        case ended
        /// Events came, which may come at any time.
        case disturbed
        /// An empty batch came long before its time.
        case early(Duration)
    }

    private func checkPauses(_ session: ConformanceSession) async throws -> PauseCheck {
        let (source, probe, pause) = (session.candidate.source, session.probe, session.candidate.pause)
        let first = probe.batches.count
        probe.react { number in
            if number == first { return .seconds(3600) }
            return number < first + 4 ? pause : nil
        }
        source.wake()
        guard try await session.waitsForBatch(after: first) else { return .ended }
        source.wake()
        guard try await session.waitsForBatch(after: first + 1) else { return .ended }
        for number in first + 2...first + 4 {
            if let passTime = session.candidate.passTime { try await passTime(pause) }
            let isInTime = try await session.waitsForBatch(after: number)
            let batches = probe.batches
            guard !batches[first...].contains(where: \.hasEvents) else { return .disturbed }
            guard isInTime else {
                probe.report(.pauses, "no batch came within \(session.patience) of the \(pause) that `deliver` had returned")
                return .ended
            }
            let distance = batches[number - 1].now.duration(to: batches[number].now)
            // Another check looks for time that goes backwards.
            guard distance < .zero || distance >= pause / 2 else { return .early(distance) }
        }
        return .ended
    }

    /// Yields until threads have finished; 5 s at most, because a source may hold up `wake()` while it delivers.
    private static func giveWay(until threads: ThreadGroup) {
        let end = ContinuousClock.now + .seconds(5)
        while !threads.isFinished, ContinuousClock.now < end { sched_yield() }
    }
}

/// Checks of the end of a run.
extension NetworkSourceConformance {
    /// Cancels the run within a delivery.
    func checkCancellationWithinDelivery() async throws -> [Violation] {
        try await session { session in
            let (source, probe) = (session.candidate.source, session.probe)
            let count = probe.batches.count
            probe.react { _ in
                session.cancel()
                return .zero
            }
            source.wake()
            // A replay cannot be woken: `finish` cancels it then.
            if !exemptions.contains(.wakeUps) { _ = try await session.waitsForBatch(after: count) }
        }
    }

    /// Runs the source in a cancelled task.
    func checkEarlyCancellation() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        session.start(isCancelled: true)
        guard try await session.waits(until: { session.probe.phase.hasEnded }) else {
            session.probe.report(.cancellation, "`run` in a cancelled task did not end within \(patience)")
            return session.probe.violations
        }
        // The run may fail for another reason first.
        if case .ended(nil) = session.probe.phase {
            session.probe.report(.cancellation, "`run` in a cancelled task returned; it must throw")
        }
        return session.probe.violations
    }

    /// Tries to cause a batch after the end: with a pause, wake-ups and a change.
    func checkSilenceAfterEnd() async throws -> [Violation] {
        let session = try await ConformanceSession(self)
        defer { session.probe.close() }
        let (source, probe, pause) = (session.candidate.source, session.probe, session.candidate.pause)
        probe.react { _ in pause }
        session.start()
        guard try await session.begins() else {
            session.cancel()
            return probe.violations
        }
        // This batch is requested just before the end.
        source.wake()
        try await session.finish()
        guard probe.phase.hasEnded else { return probe.violations }
        source.wake()
        _ = try await session.inThreads(2) { source.wake() }
        if let change = session.candidate.changes.first { try await change() }
        try await session.pass(pause * 2)
        return probe.violations
    }
}
