internal import CNetlink

/// Stands in for the ``EventReader`` where there are no events to be had: it only tells the time, and that the monitor has to ask
/// at intervals.
///
/// Owned by one thread.
struct PollingReader: ~Copyable {
    private let equipment: EventReader.Equipment
    private let clockSteps = ClockSteps()
    private var suspension: Suspension

    init(_ equipment: EventReader.Equipment) throws(ReachabilityError) {
        self.equipment = equipment
        suspension = Suspension(total: equipment.clock.suspended)
        try NetlinkSocket.check(min(equipment.wakeUp.descriptor, 0), "eventfd()")
    }

    /// Delivers batches until it is stopped, or until waiting fails.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?) throws(ReachabilityError) {
        let clock = equipment.clock
        while !equipment.wakeUp.isStopped {
            var batch = NetworkEventBatch(
                equipment.resolver.takeAnswers() ?? [], now: clock.bootTime, wallTime: clock.wallTime, isPolled: true)
            if let time = suspension.note(total: clock.suspended) { batch.events.append(.resumed(after: time)) }
            try wait(until: deliver(batch).map { batch.now.saturatingAdd($0) })
        }
    }

    private borrowing func wait(until deadline: Duration?) throws(ReachabilityError) {
        let rest = deadline.map { max(0, $0.saturatingSubtract(equipment.clock.bootTime).clampedNanoseconds) } ?? -1
        let descriptors = [equipment.wakeUp.descriptor, clockSteps.descriptor]
        let ready = cnl_wait(descriptors, descriptors.count, rest)
        try NetlinkSocket.check(ready, "ppoll()")
        if ready & 0b01 != 0 { equipment.wakeUp.clear() }
        if ready & 0b10 != 0 { clockSteps.clear() }
    }
}
