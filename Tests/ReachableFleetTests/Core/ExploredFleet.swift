import ReachabilityTesting
import ReachableRetry
import StateExploration

@testable import ReachableFleet

/// A state of the exploration: machines on their broker, and the disturbances that may still happen.
///
/// Messages arrive at any moment, each machine's in order unless a setting reorders topics. Machines connect and start again, and
/// brokers notice dead lines, at any moment. Disturbances are counted.
struct ExploredFleet: ExplorableWorld {
    /// A kind of disturbance.
    enum Disturbance: Int, Hashable, CaseIterable {
        case crash, cut, freeze, stop, verdict, trigger, forget, restart, restartWithoutStore, lostEpoch, reorder, duplicate
        /// The passing of time while a message could arrive or a machine connect.
        case lateness
    }

    /// A case to explore.
    struct Setting: Sendable {
        var name: String
        var names = ["a", "b", "c"]
        /// The number of times that each kind of disturbance may happen.
        var disturbances: [Disturbance: Int]
        /// The most disturbances of all kinds.
        var most = 100
        /// True to begin before the machines have connected.
        var isCold = false
        /// True if wills come whenever the broker likes.
        var holdsWills = false
        /// True if it is quick enough to explore it whole each time.
        var isSmall = false
    }

    private(set) var world: FleetWorld
    private let horizon: Duration?
    private var budget: DisturbanceBudget<Disturbance>

    init(_ setting: Setting) throws {
        world = FleetWorld(setting.names)
        (world.keepsTrail, world.wallPasses) = (false, false)
        world.broker.publishesWillsByItself = !setting.holdsWills
        // Two machines of one name never come to rest: the later one tries again each minute.
        horizon = Set(setting.names).count < setting.names.count ? .seconds(12) : nil
        budget = DisturbanceBudget(setting.disturbances, most: setting.most)
        for index in setting.names.indices { try world.start(index) }
        if !setting.isCold { try world.settle(horizon: horizon) }
    }

    var fingerprint: CompactFingerprint { CompactFingerprint(FleetFingerprint(world, left: budget.left)) }

    var undisturbed: ExploredFleet {
        var fleet = self
        fleet.budget.end()
        return fleet
    }

    // MARK: - Steps

    func steps() -> [FleetWorld.Step] {
        var steps: [FleetWorld.Step] = []
        for index in world.machines.indices { steps += self.steps(of: index) }
        steps += world.orphans.map { .expire($0) }
        if !world.broker.heldWills.isEmpty { steps.append(.publishWill) }
        if budget.may(.restart) { steps.append(.restartBroker(keepsStore: true)) }
        if budget.may(.restartWithoutStore) { steps.append(.restartBroker(keepsStore: false)) }
        if budget.may(.lateness) || !isBusy, world.mayPass(horizon: horizon) { steps.append(.pass) }
        return steps
    }

    private func steps(of index: Int) -> [FleetWorld.Step] {
        let machine = world.machines[index]
        guard machine.isRunning else {
            return [.start(index, keepsEpoch: true)] + (budget.may(.lostEpoch) ? [.start(index, keepsEpoch: false)] : [])
        }
        if machine.isFrozen {
            let client = machine.connection.flatMap { world.broker.isConnected($0.client) ? $0.client : nil }
            return [.thaw(index)] + (client.map { [.expire($0)] } ?? [])
        }
        var steps: [FleetWorld.Step] = []
        if budget.may(.crash) { steps.append(.crash(index)) }
        if budget.may(.freeze) { steps.append(.freeze(index)) }
        if budget.may(.verdict), machine.verdict.state == .online { steps.append(.verdict(index, .offline)) }
        guard let connection = machine.connection else { return steps + [.connect(index)] }
        if world.canDeliver(index) {
            steps.append(.deliver(index, nil))
            if budget.may(.reorder) {
                steps += world.broker.waitingTopics(for: connection.client).dropFirst().map { .deliver(index, $0) }
            }
        }
        if !connection.isAlive {
            steps.append(.notice(index))
            if world.broker.isConnected(connection.client) { steps.append(.expire(connection.client)) }
            return steps
        }
        if budget.may(.cut) { steps.append(.cut(index)) }
        if budget.may(.stop) { steps.append(.stop(index)) }
        if budget.may(.trigger) { steps.append(.trigger(index)) }
        if budget.may(.forget) { steps += world.machines.indices.map { .forget(index, $0) } }
        if budget.may(.duplicate), world.broker.repeatMessage(for: connection.client) != nil { steps.append(.deliverAgain(index)) }
        return steps
    }

    /// True if something happens at once unless it is late.
    private var isBusy: Bool {
        world.machines.indices.contains { index in
            let machine = world.machines[index]
            return world.canDeliver(index) || machine.isRunning && !machine.isFrozen && machine.connection == nil
        }
    }

    mutating func play(_ step: FleetWorld.Step) throws {
        if let disturbance = Disturbance(step, isBusy: isBusy), budget.may(disturbance) { budget.spend(disturbance) }
        try world.play(step)
    }

    func stepTowardsTheEnd() throws -> FleetWorld.Step? { world.stepTowardsTheEnd(horizon: horizon) }

    func checkEnd() throws { try world.checkSettled() }
}

extension ExploredFleet.Disturbance {
    /// Creates the disturbance that a step is; `nil` if it may happen any number of times.
    fileprivate init?(_ step: FleetWorld.Step, isBusy: Bool) {
        switch step {
        case .crash: self = .crash
        case .cut: self = .cut
        case .freeze: self = .freeze
        case .stop: self = .stop
        case .verdict: self = .verdict
        case .trigger: self = .trigger
        case .forget: self = .forget
        case .restartBroker(let keepsStore): self = keepsStore ? .restart : .restartWithoutStore
        case .start(_, keepsEpoch: false): self = .lostEpoch
        case .deliver(_, .some): self = .reorder
        case .deliverAgain: self = .duplicate
        case .pass where isBusy: self = .lateness
        case .deliver, .connect, .notice, .start, .thaw, .expire, .publishWill, .pass: return nil
        }
    }
}

/// A fingerprint as a hash of 128 bits: those of a million states would not fit in memory.
///
/// Of a million random ones no two are equal, but for one case in 10²⁶.
struct CompactFingerprint: Hashable {
    private let first: Int
    private let second: Int

    init(_ fingerprint: FleetFingerprint) {
        var hashers = (Hasher(), Hasher())
        hashers.1.combine(1)
        hashers.0.combine(fingerprint)
        hashers.1.combine(fingerprint)
        (first, second) = (hashers.0.finalize(), hashers.1.finalize())
    }
}

/// A fingerprint that is equal for states with the same future.
///
/// It replaces a time by its distance from now, up to the distance that matters, and leaves out what only people read.
struct FleetFingerprint: Hashable {
    private struct Machine: Hashable {
        var storedEpoch: UInt64
        var connection: FleetWorld.Connection?
        var isFrozen: Bool
        var wake: Int64
        var runs: Int
        var verdict: FleetNode.State
        var lastPublication: Int64
        var wills: Set<FleetWorld.Will>
        var fired: Int
        var core: Core?
    }

    private struct Core: Hashable {
        var link: FleetCore.Link
        var epoch: UInt64
        var isEpochUsed: Bool
        var seen: UInt64
        var first: UInt64?
        var sequence: UInt64
        var verdict: FleetNode.State
        var session: Session?
        var lastStep: Int64
        var silence: Int64
        var isCurrent: Bool
        var kept: Int64
        /// While the picture is not current: the time of the next look at it, and the last message before it.
        var look: Int64
        var lastHeard: Int64
        var entries: [FleetName: Roster.Entry]
        var heard: [TriggerInbox.Series: UInt64]
        var pending: [Int64]
        var asked: [FleetCore.Request: Int64]
    }

    private struct Session: Hashable {
        var age: Int64?
        var hasRead: Bool
        var word: FleetWord?
        var isConfirmed: Bool
        var isOverwritten: Bool
        var mayStand: Bool
    }

    private let left: [UInt8]
    private let broker: SimulatedBroker
    private let orphans: Set<String>
    private let lostWills: Set<FleetName>
    private let machines: [Machine]

    init(_ world: FleetWorld, left: [UInt8]) {
        (self.left, broker, orphans, lostWills) = (left, world.broker, Set(world.orphans), world.lostWills)
        let now = world.now
        func until(_ time: BusTime) -> Int64 { time.isNever ? -1 : time <= now ? 0 : time.nanoseconds - now.nanoseconds }
        func age(_ time: BusTime, most: Duration) -> Int64 { time == .past ? -1 : BusTime(min(now - time, most)).nanoseconds }
        machines = world.machines.map { machine in
            Machine(
                storedEpoch: machine.storedEpoch, connection: machine.connection, isFrozen: machine.isFrozen,
                wake: until(machine.wakeAt), runs: machine.runs, verdict: machine.verdict.state,
                lastPublication: age(machine.lastPublication, most: .seconds(1)), wills: machine.wills,
                fired: machine.fired.count,
                core: machine.core.map { core in
                    let announcer = core.announcer
                    let longestWait = core.roster.isCurrent ? Announcer.longestJoin : FleetCore.longestCompletion
                    return Core(
                        link: core.link, epoch: announcer.epoch, isEpochUsed: announcer.isEpochUsed, seen: announcer.seen,
                        first: announcer.first, sequence: announcer.sequence, verdict: announcer.verdict.state,
                        session: announcer.session.map {
                            Session(
                                age: $0.subscribed.map { age($0, most: longestWait) }, hasRead: $0.hasRead,
                                word: $0.word,
                                isConfirmed: $0.isConfirmed, isOverwritten: $0.isOverwritten, mayStand: $0.mayStand)
                        },
                        lastStep: age(announcer.lastStep, most: Announcer.pause), silence: until(announcer.silentUntil),
                        isCurrent: core.roster.isCurrent, kept: until(core.roster.keptUntil),
                        look: core.roster.isCurrent ? -1 : until(core.looksAt),
                        lastHeard: core.roster.isCurrent ? -1 : age(core.lastHeard, most: FleetCore.stillness),
                        entries: core.roster.entries,
                        heard: core.inbox.heard, pending: core.inbox.pending.map { until($0.time) },
                        asked: Dictionary(uniqueKeysWithValues: core.asked.map { ($0.request, until($0.end)) }))
                })
        }
    }
}
