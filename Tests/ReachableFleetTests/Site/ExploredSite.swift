import ReachabilityTesting
import StateExploration

@testable import ReachableFleet
@testable import ReachableRetry

/// A state of the exploration: three machines with real cores that wait for the same destinations on a simulated broker.
///
/// Each has the part of its gates that the site may delay. Messages arrive at any moment, each machine's in order.
struct ExploredSite: ExplorableWorld {
    enum Disturbance: Int, Hashable, CaseIterable { case crash, cut, restart, lie, failure, lateness }

    enum Step: CustomStringConvertible {
        case fleet(FleetWorld.Step)
        case edge(Int)
        case end(Int, String, isAnswered: Bool)
        case lie(String, DestinationWord.Finding)
        case pass

        var description: String {
            switch self {
            case .fleet(let step): "\(step)"
            case .edge(let index): "edge of \(index)"
            case .end(let index, let name, let isAnswered): "\(index) is \(isAnswered ? "" : "not ")answered by \(name)"
            case .lie(let name, let finding): "c says of \(name): \(finding)"
            case .pass: "time passes"
            }
        }
    }

    struct Setting: Sendable {
        var name: String
        var disturbances: [Disturbance: Int]
        var destinations = ["x", "y"]
        /// True if clocks may disagree about the number of the edge: then two machines may try first.
        var isBetweenEdges = false
    }

    /// A job of a machine, by destination.
    struct Job: Hashable {
        enum State { case waiting, ready, running, done }
        var state = State.waiting
        var edge = BusTime.past
        /// The end of the pause after a failure.
        var restsUntil = BusTime.past
        var hasAnswer = false
    }

    struct Fingerprint: Hashable {
        var fleet: FleetFingerprint
        var jobs: [[String: JobPrint]]
        var sites: [SitePrint]
        var answered: Set<String>
        var canaries: [String: [Int64]]
    }

    struct JobPrint: Hashable {
        var state: Job.State
        var edge: Int64
        var rest: Int64
        var until: Int64
        var spent: [Int64]
        var hasAnswer: Bool
    }

    struct SitePrint: Hashable {
        var phases: [DestinationHash: SiteGate.Phase]
        var ages: [DestinationHash: [Int64]]
        var said: [DestinationHash: DestinationWord?]
        var heard: [DestinationHash: [FleetName: DestinationWord]]
        var leftOver: Set<DestinationHash>
    }

    private(set) var world: FleetWorld
    private var jobs: [[String: Job]]
    private var budget: DisturbanceBudget<Disturbance>
    private var isTrue = true
    private let mostCanaries: Int
    /// The starts before an answer, by destination.
    private var canaries: [String: [BusTime]] = [:]
    private var answered: Set<String> = []

    init(_ setting: Setting) throws {
        world = FleetWorld(["a", "b", "c"])
        mostCanaries = setting.isBetweenEdges ? 2 : 1
        (world.keepsTrail, world.wallPasses) = (false, false)
        // The number of an edge changes at multiples of 64 s, which this is one of.
        if !setting.isBetweenEdges { world.wallStart += .seconds(30) }
        budget = DisturbanceBudget(setting.disturbances, most: 2)
        jobs = world.machines.map { _ in Dictionary(uniqueKeysWithValues: setting.destinations.map { ($0, Job()) }) }
        for index in world.machines.indices { try world.start(index) }
        try world.settle()
        world.broker.connect("liar")
        for index in world.machines.indices {
            for name in setting.destinations { try world.send(.destination(name, .waiting(1), bus: 0), to: index) }
        }
        try world.settle()
    }

    var fingerprint: Fingerprint {
        let now = world.now
        func until(_ time: BusTime) -> Int64 { time <= now ? 0 : time.nanoseconds - now.nanoseconds }
        func age(_ time: BusTime) -> Int64 { time == .past ? -1 : BusTime(min(now - time, .seconds(16))).nanoseconds }
        return Fingerprint(
            fleet: FleetFingerprint(world, left: budget.left + [isTrue ? 1 : 0]),
            jobs: jobs.indices.map { index in
                Dictionary(
                    uniqueKeysWithValues: jobs[index].map { name, job in
                        let turn = world.machines[index].turns[name]
                        let spent = turn?.spent(at: now)
                        return (
                            name,
                            JobPrint(
                                state: job.state, edge: age(job.edge), rest: until(job.restsUntil),
                                until: until(turn?.until ?? .past),
                                spent: [spent?.held, spent?.turned].map { BusTime($0 ?? .zero).nanoseconds },
                                hasAnswer: job.hasAnswer)
                        )
                    })
            },
            sites: world.machines.map { machine in
                let sites = machine.core?.sites
                return SitePrint(
                    phases: sites?.gates.mapValues(\.phase) ?? [:],
                    ages: sites?.gates.mapValues { [age($0.edge.time), until($0.due), until($0.saidAt + SiteGate.pause)] } ?? [:],
                    said: sites?.gates.mapValues(\.said) ?? [:],
                    heard: sites?.heard.mapValues { $0.mapValues(\.word) } ?? [:], leftOver: sites?.leftOver ?? [])
            },
            answered: answered, canaries: isTrue ? canaries.mapValues { $0.map { until($0 + .seconds(5)) } } : [:])
    }

    var undisturbed: ExploredSite {
        var site = self
        site.budget.end()
        return site
    }

    // MARK: - Steps

    func steps() -> [Step] {
        var steps: [Step] = world.orphans.map { .fleet(.expire($0)) }
        for (index, machine) in world.machines.enumerated() {
            guard machine.isRunning else {
                steps.append(.fleet(.start(index, keepsEpoch: true)))
                continue
            }
            if budget.may(.crash) { steps.append(.fleet(.crash(index))) }
            if machine.connection == nil {
                steps.append(.fleet(.connect(index)))
            } else if machine.connection?.isAlive == false {
                steps.append(.fleet(.notice(index)))
            } else {
                if world.canDeliver(index) { steps.append(.fleet(.deliver(index, nil))) }
                if budget.may(.cut) { steps.append(.fleet(.cut(index))) }
            }
            if jobs[index].values.contains(where: { $0.state == .waiting }) { steps.append(.edge(index)) }
            for (name, job) in jobs[index].sorted(by: { $0.key < $1.key }) where job.state == .running {
                steps.append(.end(index, name, isAnswered: true))
                if budget.may(.failure) { steps.append(.end(index, name, isAnswered: false)) }
            }
        }
        if budget.may(.restart) { steps.append(.fleet(.restartBroker(keepsStore: true))) }
        if budget.may(.lie), let name = jobs[0].keys.min() {
            steps += [.answering, .overloaded, .unreachable].map { .lie(name, $0) }
        }
        if !isBusy || budget.may(.lateness), nextTime != nil { steps.append(.pass) }
        return steps
    }

    /// True if a message or a machine is on its way, or an attempt runs, which would be late.
    private var isBusy: Bool {
        world.machines.indices.contains { index in
            world.canDeliver(index) || world.machines[index].isRunning && world.machines[index].connection == nil
                || jobs[index].values.contains { $0.state == .running || $0.state == .waiting }
        }
    }

    private var nextTime: BusTime? {
        var next = world.nextWake ?? .never
        for index in jobs.indices where world.machines[index].isRunning {
            for (name, job) in jobs[index] where job.state == .ready {
                next = min(next, max(job.restsUntil, world.machines[index].turns[name]?.until ?? .past))
            }
        }
        return next.isNever ? nil : next
    }

    mutating func play(_ step: Step) throws {
        switch step {
        case .fleet(let step):
            switch step {
            case .crash(let index):
                spend(.crash)
                // Its jobs are gone with it.
                for name in jobs[index].keys { jobs[index][name]?.state = .done }
            case .cut: spend(.cut)
            case .restartBroker: spend(.restart)
            default: break
            }
            try world.play(step)
        case .edge(let index): try edge(index)
        case .end(let index, let name, let isAnswered): try end(index, name, isAnswered)
        case .lie(let name, let finding):
            spend(.lie)
            let word = DestinationWord(
                finding: finding, time: world.instant.seconds, until: WordCoding.largestNumber, waiting: 1_000_000, took: 60_000)
            let topic = FleetTopic.destination(FleetWorld.name("c"), DestinationHash(name, site: FleetWorld.site))
            let message = SimulatedBroker.Message(
                topic: topic.text(site: FleetWorld.site), payload: WordCoding.payload(word), isRetained: true)
            world.broker.publish(message, from: "liar")
        case .pass:
            if isBusy { spend(.lateness) }
            if let nextTime { try world.pass(to: nextTime) }
        }
        try startJobs()
    }

    private mutating func spend(_ disturbance: Disturbance) {
        if budget.may(disturbance) { budget.spend(disturbance) }
        // A failure is the truth; what others hear of it is, too.
        if disturbance != .failure { isTrue = false }
    }

    private mutating func edge(_ index: Int) throws {
        for name in jobs[index].keys.sorted() where jobs[index][name]?.state == .waiting {
            jobs[index][name]?.state = .ready
            jobs[index][name]?.edge = world.now
            var turn = SiteTurn()
            turn.noteEdge(at: world.now)
            world.machines[index].turns[name] = turn
            try world.send(.destination(name, .edge, bus: 0), to: index)
        }
    }

    private mutating func end(_ index: Int, _ name: String, _ isAnswered: Bool) throws {
        if isAnswered {
            answered.insert(name)
            jobs[index][name]?.state = .done
            world.machines[index].turns[name]?.noteAnswer(at: world.now)
            jobs[index][name]?.hasAnswer = true
            try world.send(.destination(name, .answered(after: .milliseconds(10)), bus: 0), to: index)
            let isFree = world.machines[index].turns[name]?.delay(at: world.now) == nil
            guard isFree else { throw FleetWorld.Broken(description: "\(index) is held after its answer") }
            try world.send(.destination(name, .waiting(0), bus: 0), to: index)
        } else {
            spend(.failure)
            jobs[index][name]?.state = .ready
            jobs[index][name]?.restsUntil = world.now + .milliseconds(500)
            try world.send(.destination(name, .unreachable, bus: 0), to: index)
        }
    }

    private mutating func startJobs() throws {
        for index in jobs.indices where world.machines[index].isRunning {
            for (name, job) in jobs[index].sorted(by: { $0.key < $1.key }) where job.state == .ready {
                let end = world.machines[index].turns[name]?.delay(at: world.now)?.end ?? .past
                guard end <= job.edge + .seconds(15) else {
                    throw FleetWorld.Broken(description: "\(index) waits for \(name) until \(end - job.edge) after its edge")
                }
                if max(end, job.restsUntil) <= world.now { try start(index, name) }
            }
        }
    }

    private mutating func start(_ index: Int, _ name: String) throws {
        jobs[index][name]?.state = .running
        guard !answered.contains(name), jobs[index][name]?.restsUntil == .past else { return }
        canaries[name, default: []].append(world.now)
        let recent = canaries[name, default: []].filter { $0 + .seconds(5) > world.now }
        if isTrue, recent.count > mostCanaries {
            throw FleetWorld.Broken(description: "\(recent.count) machines try \(name) within 5 s")
        }
    }

    // MARK: - The end

    func stepTowardsTheEnd() throws -> Step? {
        for index in jobs.indices where world.machines[index].isRunning {
            if jobs[index].values.contains(where: { $0.state == .waiting }) { return .edge(index) }
            if let name = jobs[index].filter({ $0.value.state == .running }).keys.min() {
                return .end(index, name, isAnswered: true)
            }
        }
        if let step = world.stepTowardsTheEnd(), step != .pass { return .fleet(step) }
        return nextTime == nil ? nil : .pass
    }

    func checkEnd() throws {
        for index in jobs.indices where jobs[index].values.contains(where: { $0.state != .done }) {
            throw FleetWorld.Broken(description: "jobs of \(index) never end: \(jobs[index])")
        }
        // A lie is c's word, and machines that are gone have left theirs.
        let others = world.machines.filter { $0.isRunning && $0.name != FleetWorld.name("c") }.map { "/\($0.name)/dest/" }
        let left = world.broker.retained.keys.filter { topic in others.contains { topic.contains($0) } }
        guard left.isEmpty else { throw FleetWorld.Broken(description: "words are left: \(left.sorted())") }
    }
}
