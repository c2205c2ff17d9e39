import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import ReachableFleet

/// An hour of virtual time in which machines crash, freeze, lose their lines and restart, as does the broker.
@Suite(.computing) struct FleetChurnTests {
    private static let names = ["a", "b", "c", "d", "e", "f", "g", "h"]

    /// `FLEET_CHURNS` sets the number of seeds per part, for longer runs.
    private static let count: UInt64 = variable("FLEET_CHURNS") ?? 3

    /// The number of steps that a failure prints; `FLEET_TRAIL` sets it.
    private static let trail = variable("FLEET_TRAIL") ?? 80

    /// Runs an hour; throws the first broken promise with its seed and the steps before it.
    ///
    /// - Parameter horizon: For machines of one name: see ``FleetWorld/stepTowardsTheEnd(horizon:)``.
    private func run(seed: UInt64, names: [String], horizon: Duration? = nil) throws -> FleetWorld {
        var world = FleetWorld(names)
        var generator = SeededGenerator(seed: seed)
        world.broker.takeoverWill = Bool.random(using: &generator) ? .afterFirstMessage : .atOnce
        world.broker.publishesWillsByItself = Bool.random(using: &generator)
        do {
            for index in names.indices { try world.start(index) }
            // Ten minutes of trouble, then a rest in which all promises are checked.
            for part in 1...6 {
                let end = BusTime.start + .seconds(1000 + 600 * part)
                while world.now < end { try step(&world, &generator) }
                try world.settle(horizon: horizon)
                try world.checkSettled()
            }
        } catch {
            let trail = world.steps.suffix(Self.trail).joined(separator: ", ")
            throw FleetWorld.Broken(description: "\(generator): \(error); after: \(trail)")
        }
        return world
    }

    private func step(_ world: inout FleetWorld, _ generator: inout SeededGenerator) throws {
        let index = Int.random(in: world.machines.indices, using: &generator)
        let machine = world.machines[index]
        switch Int.random(in: 0..<200, using: &generator) {
        case 0..<90: try deliver(&world, index, &generator)
        case 90..<95: if machine.connection != nil, !machine.isFrozen { try world.deliverAgain(index) }
        case 95..<130: if machine.isRunning, !machine.isFrozen, machine.connection?.isAlive != true { try world.connect(index) }
        case 130..<150:
            let time = Duration.milliseconds(Int.random(in: 1...20_000, using: &generator))
            try pass(&world, time)
        case 150..<155: try world.setVerdict(index, [.online, .degraded, .offline].randomElement(using: &generator) ?? .online)
        case 155..<158: world.crash(index)
        case 158..<170: if !machine.isRunning { try world.start(index, keepsEpoch: Int.random(in: 0..<4, using: &generator) > 0) }
        case 170..<173: world.cut(index)
        case 173..<178: if machine.connection?.isAlive == false, !machine.isFrozen { try world.notice(index) }
        case 178..<183: if let orphan = world.orphans.randomElement(using: &generator) { world.expire(orphan) }
        case 183: world.setFrozen(index, true)
        case 184..<188: if machine.isFrozen { world.setFrozen(index, false) }
        case 188: if let client = machine.connection?.client, machine.isFrozen { world.expire(client) }
        case 189: if machine.isRunning, !machine.isFrozen { try world.stop(index) }
        case 190: try world.restartBroker(keepingStore: Int.random(in: 0..<3, using: &generator) > 0)
        case 191: try world.play(.trigger(index))
        case 192: if !machine.isFrozen { try world.play(.forget(index, Int.random(in: world.machines.indices, using: &generator))) }
        default: world.broker.publishHeldWills(1)
        }
    }

    private func deliver(_ world: inout FleetWorld, _ index: Int, _ generator: inout SeededGenerator) throws {
        for _ in 0..<Int.random(in: 1...30, using: &generator) where world.canDeliver(index) {
            guard let client = world.machines[index].connection?.client else { return }
            let topics = world.broker.waitingTopics(for: client)
            try world.deliver(
                index, from: Int.random(in: 0..<3, using: &generator) == 0 ? topics.randomElement(using: &generator) : nil)
        }
    }

    /// Lets time pass; cores are called at the times that they have asked for.
    private func pass(_ world: inout FleetWorld, _ time: Duration) throws {
        let end = world.now + time
        while let wake = world.nextWake, wake <= end { try world.pass(to: wake) }
        try world.pass(to: end)
    }

    @Test(arguments: 0..<4 as Range<UInt64>) func promisesHoldInAnHourOfChurn(part: UInt64) throws {
        for seed in part * Self.count..<(part + 1) * Self.count {
            let world = try run(seed: seed, names: Self.names)
            // Restarts get new identifiers: no machine takes itself for another.
            #expect(world.machines.map(\.nameInUse) == Self.names.map { _ in 0 }, "seed \(seed)")
        }
    }

    @Test(arguments: 0..<4 as Range<UInt64>) func promisesHoldWithTwoMachinesOfOneName(part: UInt64) throws {
        for seed in part * Self.count..<(part + 1) * Self.count {
            _ = try run(seed: seed, names: ["a", "b", "b", "c"], horizon: .seconds(12))
        }
    }

    @Test func bothMachinesOfOneNameSaySo() throws {
        var world = FleetWorld(["a", "b", "b"])
        for index in 0..<3 {
            try world.start(index)
            try world.settle(horizon: .seconds(12))
        }
        #expect(world.machines.map { $0.nameInUse > 0 } == [false, true, true])
        #expect(world.announcers(of: FleetWorld.name("b")) == [1])
        let published = world.machines[2].publications
        // The later one tries again each minute, and no more often.
        for _ in 0..<60 { try pass60(&world) }
        #expect(world.machines[2].publications - published <= 61)
        #expect(world.announcers(of: FleetWorld.name("b")) == [1])
    }

    private func pass60(_ world: inout FleetWorld) throws {
        if let wake = world.nextWake { try world.pass(to: wake) }
        try world.settle(horizon: .seconds(12))
    }

    @Test func laterMachineTakesOverFreedName() throws {
        var world = FleetWorld(["a", "b", "b"])
        for index in 0..<3 {
            try world.start(index)
            try world.settle(horizon: .seconds(12))
        }
        try world.stop(1)
        try world.settle(horizon: .seconds(12))
        try world.checkSettled()
        #expect(world.announcers(of: FleetWorld.name("b")) == [2])
    }
}
