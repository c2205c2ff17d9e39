import CommandKit
import Glibc
import Reachability

/// The clocks of a service.
struct ServiceClock: Sendable {
    /// The time of day, since 1970-01-01T00:00:00Z.
    var wallTime: @Sendable () -> Duration
    /// The time on the monitor's clock.
    var bootTime: @Sendable () -> BootInstant
    /// The time since boot in which the machine was suspended.
    var suspended: @Sendable () -> Duration = { .zero }

    /// The present time.
    var moment: Moment { Moment(at: bootTime(), wallTime: wallTime()) }

    /// The kernel's clocks (clock_gettime(2)).
    static let kernel = ServiceClock(
        wallTime: { read(CLOCK_REALTIME) }, bootTime: { BootInstant(sinceBoot: read(CLOCK_BOOTTIME)) },
        suspended: { read(CLOCK_BOOTTIME).saturatingSubtract(read(CLOCK_MONOTONIC)) })

    private static func read(_ clock: clockid_t) -> Duration {
        var time = timespec()
        clock_gettime(clock, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}

/// A running service: a monitor, its feed, its history and the answers about them.
struct ServeSession: Sendable {
    /// The interval of signs of life to readers: a reader that left is noticed at the next write.
    static let heartbeat = Duration.seconds(15)
    /// The interval at which the history notes that the service runs.
    static let aliveInterval = Duration.seconds(60)
    /// The interval at which old observations are removed.
    static let pruneInterval = Duration.seconds(3600)

    let monitor: ReachabilityMonitor
    let scopes: [Scope]
    let feed: EventFeed
    let history: History
    /// The hooks; `nil` for none.
    let hooks: ServeHooks?
    /// The messages to the service manager; `nil` without one.
    let notifier: ServiceNotifier?
    /// The fleet that this machine is announced to; `nil` for none.
    private let fleet: ServedFleet?
    private let queue: QueueView?
    private let clock: ServiceClock
    private let started: Duration
    private let recorded: AsyncStream<Void>
    private let recording: AsyncStream<Void>.Continuation
    private let shared = SharedDocuments()

    /// - Parameters:
    ///   - queue: The queue to show; `nil` for none.
    ///   - hooks: The hooks, which the caller runs; `nil` for none.
    ///   - fleet: The fleet that this machine is announced to; `nil` for none.
    ///   - maxReaders: The number of readers of `/events`.
    ///   - notifier: The messages to the service manager; `nil` without one.
    init(
        _ monitor: ReachabilityMonitor, scopes: [Scope], history: History, queue: QueueView? = nil, hooks: ServeHooks? = nil,
        fleet: ServedFleet? = nil, maxReaders: Int = 256, notifier: ServiceNotifier? = nil, clock: ServiceClock = .kernel
    ) {
        (self.monitor, self.scopes, self.history, self.queue, self.clock) = (monitor, scopes, history, queue, clock)
        (self.hooks, self.fleet, self.notifier) = (hooks, fleet, notifier)
        started = clock.wallTime()
        // Two runs of the same microsecond are of different processes.
        let run = hexadecimal(UInt64(max(0, Int64(clamping: started.attoseconds / 1_000_000_000_000))), digits: 1)
        feed = EventFeed(EventLog(scopes, run: run), maxReaders: maxReaders)
        (recorded, recording) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Runs until the task is cancelled or the monitor ends.
    ///
    /// - Parameter onReady: Called once every scope has its first verdict.
    /// - Returns: The error that ended the monitor, if one did.
    func run(onReady: @escaping @Sendable () async -> Void) async -> ReachabilityError? {
        let monitoring = MonitorSession(monitor: monitor, scopes: scopes)
        await notifier?.note(status: "waiting for the first verdict")
        return await withTaskGroup(of: ReachabilityError?.self) { group in
            group.addTask { await keepHistory() }
            group.addTask { await sendHeartbeats() }
            group.addTask { await sendHealth() }
            group.addTask { await sendQueueChanges() }
            group.addTask { await joinFleet() }
            group.addTask { await feedWatchdog() }
            let end = await monitoring.run { index, transition in
                let isComplete = await feed.publish(transition, ofScopeAt: index, suspended: clock.suspended())
                await history.add(Observation(transition, of: scopes[index]))
                recording.yield()
                await notifier?.note(status: summary(await feed.records))
                if isComplete { await onReady() }
                return nil
            }
            await feed.end()
            group.cancelAll()
            if case .monitorEnded(let error) = end { return error }
            return nil
        }
    }

    /// Notes in the history that the service ends in an orderly manner.
    func close() async { await history.write(now: clock.wallTime(), isEnd: true) }

    // MARK: - Tasks

    private func keepHistory() async -> ReachabilityError? {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in recorded {
                    await history.noteLife(at: clock.moment)
                    await history.write(now: clock.wallTime())
                }
            }
            group.addTask { await each(Self.aliveInterval) { recording.yield() } }
            group.addTask {
                await history.prune(now: clock.wallTime())
                await each(Self.pruneInterval) { await history.prune(now: clock.wallTime()) }
            }
        }
        return nil
    }

    private func sendHeartbeats() async -> ReachabilityError? {
        await each(Self.heartbeat) { await feed.hint("alive", .object([.init("time", .wallTime(clock.wallTime()))])) }
        return nil
    }

    private func sendHealth() async -> ReachabilityError? {
        var mode = MonitorHealth.Mode.starting
        for await health in monitor.healthUpdates where health.mode != mode {
            mode = health.mode
            await feed.hint("health", .object([.init("mode", .string(mode.rawValue))]))
        }
        return nil
    }

    /// Gives the service manager signs of life, as long as the monitor's thread passes through its loop.
    private func feedWatchdog() async -> ReachabilityError? {
        await notifier?.feedWatchdog(passes: { monitor.deliveryCount }, pass: { monitor.requestDelivery() })
        return nil
    }

    /// Returns the state of the scopes on one line; of several scopes each has its name.
    private func summary(_ records: [ScopeRecord]) -> String {
        records.map { scopes.count == 1 ? "\($0.last.current)" : "\($0.scope): \($0.last.current)" }.joined(separator: "; ")
    }

    /// Tells readers that the queue has changed, at most once a second.
    private func sendQueueChanges() async -> ReachabilityError? {
        guard let queue else { return nil }
        while !Task.isCancelled {
            // The store may be created, removed or repaired while the service runs.
            if let changes = await queue.changes() {
                for await _ in changes {
                    await feed.hint("queue")
                    guard await pause(.seconds(1)) else { return nil }
                }
            }
            guard await pause(.seconds(10)) else { return nil }
        }
        return nil
    }

    /// Is a member of the fleet, and tells readers that its picture has changed, at most once a second.
    private func joinFleet() async -> ReachabilityError? {
        guard let fleet else { return nil }
        let (changes, change) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [queue] in
                await fleet.run(
                    onChange: { change.yield() },
                    onRetryNow: { await queue?.retryNow() ?? "there is no queue to try" })
                change.finish()
            }
            group.addTask {
                for await _ in changes {
                    await feed.hint("fleet")
                    guard await pause(.seconds(1)) else { return }
                }
            }
        }
        return nil
    }

    private func each(_ interval: Duration, _ body: () async -> Void) async {
        while await pause(interval) { await body() }
    }

    /// Waits; returns false if the task was cancelled.
    private func pause(_ time: Duration) async -> Bool { (try? await Task.sleep(for: time)) != nil }
}

/// The answers to requests.
extension ServeSession {
    /// The text of `/metrics`.
    func metrics(connections: Int, refused: Int) async -> String {
        await shared.document("metrics", version: await feed.version, lifetime: .milliseconds(250)) {
            let problem = await history.problem
            let service = MetricsText.Service(
                readers: await feed.readerCount, cutReaders: await feed.cutReaders, connections: connections,
                refusedConnections: refused, writesHistory: history.isKept ? problem == nil : nil)
            return MetricsText(
                version: Program.version, started: started, now: clock.bootTime(), suspended: clock.suspended(),
                records: await feed.records, health: monitor.health, events: monitor.eventCounts,
                queue: await queue?.snapshot(), hooks: hooks?.runner.counts, fleet: fleet?.snapshot(), service: service
            ).text
        }
    }

    /// Adds a reader of `/events`, as ``EventFeed/open(after:cut:)`` does.
    func events(after lastID: String?, cut: @escaping @Sendable () -> Void) async -> AsyncStream<String>? {
        await feed.refresh(monitor.lastPaths(to: scopes))
        return await feed.open(after: lastID, cut: cut)
    }

    /// The JSON of `/status`.
    func status() async -> String {
        await shared.document("status", version: await feed.version, lifetime: .milliseconds(250)) {
            let service = StatusDocument.Service(
                version: Program.version, host: Self.hostName, started: started, history: await history.path,
                historyProblem: await history.problem)
            await feed.refresh(monitor.lastPaths(to: scopes))
            // Without an answer of the kernel the published path is all that is known.
            let explanations = (try? monitor.explanations(of: scopes, within: .seconds(1))) ?? []
            return StatusDocument(
                now: clock.wallTime(), service: service, records: await feed.records, explanations: explanations,
                health: monitor.health, queue: await queue?.snapshot(),
                hooks: hooks.map { .init(directory: $0.directory, counts: $0.runner.counts) }, fleet: fleet?.snapshot()
            ).json.description + "\n"
        }
    }

    /// The JSON of `/history`.
    func history(hours: Int) async -> String {
        await shared.document("history \(hours)", version: await feed.version, lifetime: .seconds(1)) {
            let now = clock.wallTime()
            let start = now.saturatingSubtract(.seconds(hours * 3600))
            await history.noteLife(at: clock.moment)
            let timelines = await history.timelines(from: start, until: now)
            return HistoryDocument(start: start, end: now, timelines: timelines).json.description + "\n"
        }
    }

    private static let hostName: String = {
        var name = utsname()
        guard uname(&name) == 0 else { return "" }
        return withUnsafeBytes(of: &name.nodename) { InterfaceName.text($0.prefix { $0 != 0 }) }
    }()
}

/// Documents that concurrent requests share, so that a flood of requests costs no more than a few.
private actor SharedDocuments {
    private struct Entry {
        var version: UInt64
        var made: ContinuousClock.Instant
        var document: Task<String, Never>
    }

    private var entries: [String: Entry] = [:]

    /// Returns a document that is not older than a version and a lifetime; makes it if there is none.
    func document(
        _ name: String, version: UInt64, lifetime: Duration, _ make: @escaping @concurrent @Sendable () async -> String
    ) async -> String {
        let now = ContinuousClock.now
        if let entry = entries[name], entry.version == version, now - entry.made < lifetime { return await entry.document.value }
        // Few are asked for at the same time; each is made again in no time.
        if entries.count > 8 { entries = [:] }
        let document = Task { await make() }
        entries[name] = Entry(version: version, made: now, document: document)
        return await document.value
    }
}
