import HeapModule
import ReachableRetry

/// Machines that lose and regain one server, in virtual time: the cores of their buses, each of which knows how many there are.
///
/// A value: what is the same in several runs is prepared once and copied.
struct HerdSite {
    /// The parts of a site that differ between runs.
    struct Setup {
        var hosts = 1000
        var jobsPerHost = 5
        /// False to run each machine as if it were alone.
        var isFleet = true
        /// The time for which the path is satisfied and leads nowhere.
        var lag = Duration.zero
        /// Requests a second, and the number that the server accepts.
        var rate = 100
        var room = 400
        /// The time that a client waits for an answer.
        var timeout = Duration.seconds(2)
        var limit = Duration.seconds(1000)
        var seed: UInt64 = 1

        var jobs: Int { hosts * jobsPerHost }
    }

    /// The measures of a run, from the edge on.
    struct Figures {
        var starts: [Duration] = []
        var successes: [Duration] = []
        /// The starts while the path led nowhere.
        var early = 0
        var jobs = 0
        var ideal = Duration.zero

        var isComplete: Bool { successes.count == jobs }
        var attemptsPerJob: Double { Double(starts.count) / Double(jobs) }
        var makespan: Double { (successes.max() ?? .zero) / ideal }
    }

    private enum Event {
        case up(Int)
        case timer(Int)
        case end(Int, JobKey, FailureReport?)
    }

    /// Events in the order of their times; those of one time in the order in which they were added.
    private struct Entry: Comparable {
        var time: BusTime
        var number: Int
        var event: Event

        static func < (left: Entry, right: Entry) -> Bool { (left.time, left.number) < (right.time, right.number) }
        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private struct Host {
        var bus: RetryBusCore
        var timer = BusTime.never
    }

    private static let scope: ConditionIndex = 0
    private static let edge = BusTime.start + .seconds(100)
    private static let policy = RetryPolicy(
        .exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(60)).jitter(.full)
    ).giveUpAfter(maxAttempts: nil).connectivity(.wait(upTo: nil))
    private static let wayToNowhere = Duration.milliseconds(100)

    private var setup: Setup
    private var hosts: [Host] = []
    private var events = Heap<Entry>()
    private var eventCount = 0
    private var now = BusTime.start
    private var random: SplitMix64
    private var freeAt = BusTime.start
    private var figures = Figures()

    /// Prepares machines that are offline and wait.
    init(_ setup: Setup) {
        self.setup = setup
        random = SplitMix64(seed: setup.seed)
        for _ in 0..<setup.hosts {
            var bus = RetryBusCore(release: .gated, seed: random.next())
            _ = bus.addCondition(Level(isSatisfied: true, epoch: 1), isReachability: true, unknownUntil: .start)
            if setup.isFleet { bus.fleetSize = setup.hosts }
            hosts.append(Host(bus: bus))
        }
        for index in hosts.indices {
            run(hosts[index].bus.update(Self.scope, Level(isSatisfied: false, epoch: 1), at: now), of: index)
            for _ in 0..<setup.jobsPerHost {
                let (_, _, effects) = hosts[index].bus.submit(
                    Self.policy.rules, scope: Self.scope, destination: "server", at: now)
                run(effects, of: index)
            }
        }
        pass(until: Self.edge)
    }

    /// Lets the network come back, with what is particular to a run.
    mutating func run(_ change: (inout Setup) -> Void = { _ in }) -> Figures {
        change(&setup)
        random = SplitMix64(seed: setup.seed &* 0x9e37_79b9)
        figures = Figures()
        (figures.jobs, figures.ideal) = (setup.jobs, .seconds(1) * setup.jobs / setup.rate + setup.lag)
        // Each machine's kernel and monitor take their time.
        for index in hosts.indices { add(.up(index), at: now + .microseconds(Int.random(in: 0...100_000, using: &random))) }
        pass(until: Self.edge + setup.limit)
        return figures
    }

    private mutating func add(_ event: Event, at time: BusTime) {
        eventCount += 1
        events.insert(Entry(time: time, number: eventCount, event: event))
    }

    private mutating func pass(until end: BusTime) {
        while let next = events.min, next.time <= end {
            events.removeMin()
            now = max(now, next.time)
            switch next.event {
            case .up(let index):
                run(hosts[index].bus.update(Self.scope, Level(isSatisfied: true, epoch: 2), at: now), of: index)
            case .timer(let index):
                guard hosts[index].timer <= now else { continue }
                hosts[index].timer = .never
                run(hosts[index].bus.tick(at: now), of: index)
            case .end(let index, let key, let report): finish(index, key, report)
            }
            if figures.jobs > 0, figures.isComplete { return }
        }
        now = max(now, end)
    }

    private mutating func run(_ effects: [Effect], of index: Int) {
        for case .start(let key) in effects { start(index, key) }
        let next = hosts[index].bus.nextTime()
        guard next < hosts[index].timer else { return }
        hosts[index].timer = next
        add(.timer(index), at: next)
    }

    private mutating func start(_ index: Int, _ key: JobKey) {
        figures.starts.append(now - Self.edge)
        guard now >= Self.edge + setup.lag else {
            figures.early += 1
            return add(.end(index, key, FailureReport(.classified(.network))), at: now + Self.wayToNowhere)
        }
        let cost = Duration.seconds(1) / setup.rate
        let start = max(now, freeAt)
        guard (start - now) / cost < Double(setup.room) else {
            return add(.end(index, key, FailureReport(.classified(.overload(retryAfter: nil)))), at: now)
        }
        freeAt = start + cost
        // A client that no longer waits does not spare the server the work.
        let isLate = freeAt - now > setup.timeout
        add(.end(index, key, isLate ? FailureReport(systemError: 110) : nil), at: isLate ? now + setup.timeout : freeAt)
    }

    private mutating func finish(_ index: Int, _ key: JobKey, _ report: FailureReport?) {
        guard let report else {
            figures.successes.append(now - Self.edge)
            return run(hosts[index].bus.succeed(key, at: now), of: index)
        }
        guard let context = hosts[index].bus.failureContext(of: key) else { return }
        let delays = FailureDelays(context, random: Double.random(in: 0..<1, using: &random))
        run(hosts[index].bus.fail(key, report, interruption: nil, isGone: false, delays: delays, at: now), of: index)
    }
}
