/// The time for which a lane's jobs might have run: while a claim names the lane and no server holds its destination.
///
/// Its readings, in nanoseconds, measure the runnable time of the lane's jobs.
struct LaneClock: Sendable {
    /// The number of workers whose last claim named the lane.
    private var openers = 0
    private var passed: Int64 = 0
    private var openSince = StoreInstant(nanoseconds: 0)
    private var heldUntil = StoreInstant(nanoseconds: .min)

    /// The open time until now.
    func reading(_ now: StoreInstant) -> Int64 {
        guard openers > 0 else { return passed }
        return passed + max(0, max(openSince, heldUntil).duration(to: now).nanoseconds)
    }

    /// Adds a worker whose claim names the lane.
    mutating func open(_ now: StoreInstant) {
        if openers == 0 { openSince = now }
        openers += 1
    }

    /// Removes a worker, which may have ended some time ago.
    mutating func close(_ time: StoreInstant) {
        passed = reading(time)
        (openers, openSince) = (openers - 1, max(openSince, time))
    }

    /// Stops the clock until a time.
    mutating func hold(until time: StoreInstant, _ now: StoreInstant) {
        passed = reading(now)
        (openSince, heldUntil) = (now, max(heldUntil, time))
    }
}
