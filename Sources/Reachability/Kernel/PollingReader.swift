internal import CNetlink

/// Stands in for the ``EventReader`` where there are no events: it only tells the time, and that the monitor has to poll.
///
/// Owned by one thread.
struct PollingReader: ~Copyable {
    private let equipment: EventReader.Equipment
    private let clockSteps = ClockChangeTimer()
    private var suspension: Suspension
    private let cause: ReachabilityError

    /// How often the reader looks for calls where there is no descriptor to wake it by.
    private static let blindPause: Duration = .milliseconds(100)

    /// - Parameter cause: the reason why there are no events.
    init(_ equipment: EventReader.Equipment, because cause: ReachabilityError) {
        self.equipment = equipment
        self.cause = cause
        suspension = Suspension(total: equipment.clock.suspended)
    }

    /// Delivers batches until it is stopped, until waiting fails, or until the time is up.
    mutating func run(_ deliver: (NetworkEventBatch) -> Duration?, for limit: Duration?) throws(ReachabilityError) {
        let clock = equipment.clock
        let end = limit.map { clock.bootTime.saturatingAdd($0) }
        while !equipment.wakeUp.isStopped {
            var batch = NetworkEventBatch(
                equipment.resolver.takeAnswers() ?? [], now: BootInstant(sinceBoot: clock.bootTime), wallTime: clock.wallTime,
                isPolled: true, impairment: cause)
            if let time = suspension.note(total: clock.suspended) { batch.events.append(.resumed(after: time)) }
            let wait = deliver(batch)
            let deadline = Duration.earlier(wait.map { batch.now.sinceBoot.saturatingAdd($0) }, end)
            try sleep(until: deadline)
            if let end, end <= clock.bootTime { return }
        }
    }

    private borrowing func sleep(until deadline: Duration?) throws(ReachabilityError) {
        let descriptors = [equipment.wakeUp.descriptor, clockSteps.descriptor]
        let isDeaf = equipment.wakeUp.descriptor < 0
        while true {
            var rest = deadline.map { max(.zero, $0.saturatingSubtract(equipment.clock.bootTime)) }
            if isDeaf { rest = min(rest ?? Self.blindPause, Self.blindPause) }
            let ready = cnl_wait(descriptors, descriptors.count, rest?.clampedNanoseconds ?? -1)
            try NetlinkSocket.check(ready, "ppoll()")
            let isWanted = ready & 0b01 != 0 || isDeaf ? equipment.wakeUp.clear() : false
            if ready & 0b10 != 0 { clockSteps.clear() }
            let isDue = deadline.map { $0 <= equipment.clock.bootTime } ?? false
            if isWanted || isDue || ready != 0 || equipment.wakeUp.isStopped { return }
            if !isDeaf && rest == nil { return }
        }
    }
}
