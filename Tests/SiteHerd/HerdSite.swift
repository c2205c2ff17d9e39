internal import ReachableFleet
internal import ReachableRetry

/// Machines of a site that lose and regain one server, in virtual time: real cores on a broker with delays.
///
/// A value: what is the same in several runs is prepared once and copied.
package struct HerdSite: Sendable {
    /// The parts of a site that differ between runs.
    package struct Setup: Sendable {
        package var hosts = 1000
        package var jobsPerHost = 5
        /// False to run each machine without the others' words.
        package var isShared = true
        /// The time for which the path is satisfied and leads nowhere.
        package var lag = Duration.zero
        /// The part of the machines that has no broker.
        package var cutOff = 0.0
        /// The part of the machines whose words are wrong, beside the others.
        package var liars = 0.0
        /// True if the broker is behind the same network: all machines lose it, and connect to it again after the edge.
        package var losesBroker = false
        /// Requests a second, and the number that the server accepts.
        package var rate = 100
        package var room = 400
        /// The time that a client waits for an answer.
        package var timeout = Duration.seconds(2)
        package var limit = Duration.seconds(1000)
        package var seed: UInt64 = 1

        package init() {}

        var jobs: Int { hosts * jobsPerHost }
    }

    /// The measures of a run, from the first edge on.
    package struct Figures: Sendable {
        /// The starts of attempts and the successes, since the edge.
        package var starts: [Duration] = []
        package var successes: [Duration] = []
        /// The starts while the path led nowhere.
        package var early = 0
        package var jobs = 0
        package var ideal = Duration.zero
        /// Messages about destinations that were published, and those that a machine received on average.
        package var words = 0
        package var messagesPerHost = 0

        package var isComplete: Bool { successes.count == jobs }
        package var attemptsPerJob: Double { Double(starts.count) / Double(jobs) }
        package var makespan: Double { (successes.max() ?? .zero) / ideal }
    }

    private enum Event: Sendable {
        case busTimer(Int)
        case fleetTimer(Int)
        case deliver(FleetMessage, to: Int)
        case up(Int)
        case attempt(Int, JobKey, FailureReport?)
        case connect(Int)
        case lie(Int)
    }

    private struct Host: Sendable {
        var bus: RetryBusCore
        var fleet: FleetCore
        var isConnected = false
        var mayConnect = true
        var isLiar = false
        var busAt = BusTime.never
        var fleetAt = BusTime.never
        /// Messages of one connection arrive in order.
        var lastArrival = BusTime.past
        var left = 0
    }

    private static let destination = "server"
    private static let site = "herd"
    private static let scope: ConditionIndex = 0
    /// The time of the edge.
    private static let edge = BusTime.start + .seconds(100)
    private static let policy = RetryPolicy(
        .exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(60)).jitter(.full)
    ).giveUpAfter(maxAttempts: nil).connectivity(.wait(upTo: nil))
    private static let wayToNowhere = Duration.milliseconds(100)

    private var setup: Setup
    private var hosts: [Host] = []
    private var retained: [String: FleetMessage] = [:]
    private var queue = HerdQueue<Event>()
    private var now = BusTime.start
    private var random: SplitMix64
    private var freeAt = BusTime.start
    private var figures = Figures()
    private var received = 0

    /// Prepares machines that are offline and wait, up to the moment before the edge.
    package init(_ setup: Setup) throws {
        self.setup = setup
        random = SplitMix64(seed: setup.seed)
        for index in 0..<setup.hosts { hosts.append(try host("host-\(index)")) }
        if setup.isShared { connectAll(at: .start + .seconds(1)) }
        pass(until: .start + .seconds(30))
        for index in hosts.indices {
            run(hosts[index].bus.update(Self.scope, Level(isSatisfied: false, epoch: 1), at: now), of: index)
            if setup.isShared { handle(.verdict(.offline, reason: nil), at: index) }
            if setup.losesBroker { loseConnection(index) }
        }
        pass(until: .start + .seconds(40))
        for index in hosts.indices {
            for _ in 0..<setup.jobsPerHost { submit(index) }
        }
        pass(until: Self.edge + .seconds(-5))
    }

    private mutating func host(_ name: String) throws -> Host {
        var bus = RetryBusCore(release: .gated, seed: random.next(), sharesSite: setup.isShared)
        _ = bus.addCondition(Level(isSatisfied: true, epoch: 1), isReachability: true, unknownUntil: .start)
        let fleet = try FleetCore(
            site: FleetName(Self.site), node: FleetName(name), run: FleetName("run-\(name)"), storedEpoch: 0, at: instant)
        return Host(bus: bus, fleet: fleet)
    }

    private var instant: FleetInstant { FleetInstant(time: now, wall: .seconds(1_700_000_000) + (now - .start)) }

    // MARK: - A run

    /// Lets the network come back, with what is particular to a run.
    package mutating func run(_ change: (inout Setup) -> Void = { _ in }) throws -> Figures {
        change(&setup)
        random = SplitMix64(seed: setup.seed &* 0x9e37_79b9)
        figures = Figures()
        (figures.jobs, received) = (setup.jobs, 0)
        figures.ideal = .seconds(1) * setup.jobs / setup.rate + setup.lag
        if setup.isShared {
            try addLiars()
            for index in 0..<Int(Double(setup.hosts) * setup.cutOff) { cutOff(index) }
        }
        pass(until: Self.edge)
        // Each machine's kernel and monitor take their time.
        for index in 0..<setup.hosts { queue.insert(.up(index), at: now + milliseconds(0...100)) }
        if setup.isShared, setup.losesBroker { connectAll(at: now) }
        pass(until: Self.edge + setup.limit) { $0.figures.successes.count == $0.setup.jobs }
        figures.messagesPerHost = received / max(1, setup.hosts)
        return figures
    }

    private mutating func connectAll(at time: BusTime) {
        for index in hosts.indices { queue.insert(.connect(index), at: time + milliseconds(0...300)) }
    }

    private mutating func addLiars() throws {
        for number in 0..<Int((Double(setup.hosts) * setup.liars).rounded()) {
            var liar = try host("liar-\(number)")
            liar.isLiar = true
            hosts.append(liar)
            queue.insert(.connect(hosts.count - 1), at: now)
            queue.insert(.lie(hosts.count - 1), at: Self.edge + .seconds(-1))
        }
    }

    private mutating func cutOff(_ index: Int) {
        hosts[index].mayConnect = false
        loseConnection(index)
    }

    private mutating func loseConnection(_ index: Int) {
        guard hosts[index].isConnected else { return }
        hosts[index].isConnected = false
        handle(.disconnected, at: index)
        let name = "host-\(index)"
        let will = #"{"boot":"run-\#(name)","epoch":1,"first":1,"seq":9,"since":1700000000,"state":"lost","v":1}"#
        publish(FleetMessage(topic: "reach/v1/\(Self.site)/\(name)/status", payload: [UInt8](will.utf8), isRetained: true))
    }

    private mutating func milliseconds(_ range: ClosedRange<Int>) -> Duration {
        .microseconds(Int.random(in: range.lowerBound * 1000...range.upperBound * 1000, using: &random))
    }

    private mutating func pass(until end: BusTime, _ isOver: (Self) -> Bool = { _ in false }) {
        while let time = queue.nextTime, time <= end, let event = queue.removeFirst() {
            now = max(now, time)
            take(event)
            if isOver(self) { return }
        }
        now = max(now, end)
    }

    private mutating func take(_ event: Event) {
        switch event {
        case .busTimer(let index):
            guard hosts[index].busAt <= now else { return }
            hosts[index].busAt = .never
            run(hosts[index].bus.tick(at: now), of: index)
        case .fleetTimer(let index):
            guard hosts[index].fleetAt <= now else { return }
            hosts[index].fleetAt = .never
            handle(.timer, at: index)
        case .deliver(let message, let index):
            guard hosts[index].isConnected else { return }
            received += 1
            handle(.message(message), at: index)
        case .up(let index):
            run(hosts[index].bus.update(Self.scope, Level(isSatisfied: true, epoch: 2), at: now), of: index)
            if setup.isShared { handle(.verdict(.online, reason: nil), at: index) }
        case .attempt(let index, let key, let report): end(index, key, report)
        case .connect(let index): connect(index)
        case .lie(let index): lie(index)
        }
    }

    // MARK: - The bus

    private mutating func submit(_ index: Int) {
        let (_, _, effects) = hosts[index].bus.submit(
            Self.policy.rules, scope: Self.scope, destination: Self.destination, at: now)
        run(effects, of: index)
    }

    private mutating func run(_ effects: [ReachableRetry.Effect], of index: Int) {
        for case .start(let key) in effects { start(index, key) }
        for message in hosts[index].bus.takeSiteReports() {
            handle(.destination(message.destination, message.report, bus: 0), at: index)
        }
        let next = hosts[index].bus.nextTime()
        guard next < hosts[index].busAt else { return }
        hosts[index].busAt = next
        queue.insert(.busTimer(index), at: next)
    }

    private mutating func start(_ index: Int, _ key: JobKey) {
        figures.starts.append(now - Self.edge)
        guard now >= Self.edge + setup.lag else {
            figures.early += 1
            return queue.insert(.attempt(index, key, FailureReport(.classified(.network))), at: now + Self.wayToNowhere)
        }
        let cost = Duration.seconds(1) / setup.rate
        let start = max(now, freeAt)
        guard (start - now) / cost < Double(setup.room) else {
            return queue.insert(.attempt(index, key, FailureReport(.classified(.overload(retryAfter: nil)))), at: now)
        }
        freeAt = start + cost
        // A client that no longer waits does not spare the server the work.
        let isLate = freeAt - now > setup.timeout
        queue.insert(
            .attempt(index, key, isLate ? FailureReport(systemError: 110) : nil), at: isLate ? now + setup.timeout : freeAt)
    }

    private mutating func end(_ index: Int, _ key: JobKey, _ report: FailureReport?) {
        guard let report else {
            figures.successes.append(now - Self.edge)
            return run(hosts[index].bus.succeed(key, at: now), of: index)
        }
        let (outcome, effects) = hosts[index].bus.fail(key, report, interruption: nil, isGone: false, at: now)
        run(effects, of: index)
        guard case .backOff(let number, let previous) = outcome else { return }
        let delay = Self.policy.rules.backoff.delay(afterFailure: number, previous: previous, using: &random)
        run(hosts[index].bus.park(key, for: delay, at: now), of: index)
    }

    // MARK: - The fleet

    private mutating func connect(_ index: Int) {
        guard hosts[index].mayConnect, !hosts[index].isConnected else { return }
        handle(.connecting, at: index)
        hosts[index].isConnected = true
        handle(.connected, at: index)
        handle(.subscribed, at: index)
    }

    private mutating func handle(_ event: FleetCore.Event, at index: Int) {
        for effect in hosts[index].fleet.handle(event, at: instant) {
            switch effect {
            case .subscribe: for topic in retained.keys.sorted() { if let message = retained[topic] { send(message, to: index) } }
            case .publish(let message): publish(message)
            case .wake(let time):
                hosts[index].fleetAt = time
                if !time.isNever { queue.insert(.fleetTimer(index), at: max(time, now)) }
            case .advise(let advice, let destination):
                run(hosts[index].bus.take(advice, for: destination, at: now), of: index)
            case .store, .connect, .disconnect, .changed, .fire, .settled: break
            }
        }
    }

    private mutating func publish(_ message: FleetMessage) {
        if message.topic.contains("/dest/") { figures.words += 1 }
        if message.isRetained {
            retained[message.topic] =
                message.payload.isEmpty
                ? nil : FleetMessage(topic: message.topic, payload: message.payload, isRetained: true)
        }
        let copy = FleetMessage(topic: message.topic, payload: message.payload, isRetained: false)
        for index in hosts.indices where hosts[index].isConnected { send(copy, to: index) }
    }

    private mutating func send(_ message: FleetMessage, to index: Int) {
        let arrival = max(hosts[index].lastArrival, now + milliseconds(2...30))
        hosts[index].lastArrival = arrival
        queue.insert(.deliver(message, to: index), at: arrival)
    }

    /// Says something wrong, each second.
    private mutating func lie(_ index: Int) {
        let wall = FleetInstant(time: now, wall: instant.wall).seconds
        let lies = [
            #"{"at":\#(wall),"state":"overloaded","until":9007199254740991,"v":1,"waiting":1000000}"#,
            #"{"at":\#(wall),"state":"unreachable","v":1,"waiting":1000000}"#,
            #"{"at":\#(wall),"state":"waiting","v":1,"waiting":1000000}"#,
        ]
        let lie = lies[Int(random.next() % 3)]
        let name = "liar-\(index - setup.hosts)"
        publish(FleetMessage(topic: topic(name), payload: [UInt8](lie.utf8), isRetained: true))
        queue.insert(.lie(index), at: now + .seconds(1))
    }

    private func topic(_ name: String) -> String {
        FleetCore.topic(of: Self.destination, site: Self.site, node: name) ?? ""
    }
}
