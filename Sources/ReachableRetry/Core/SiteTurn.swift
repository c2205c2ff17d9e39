/// A gate's part in a site: how long other machines may delay its jobs, and its share of the window.
///
/// Machines of a site that regain the same server let one of them try first. What they say is advice, and some may be wrong or
/// lie: the limits are enforced here. Interactive jobs are never delayed.
package struct SiteTurn: Hashable, Sendable {
    /// The time after an edge in which the site's picture may come.
    static let pictureTime = Duration.seconds(1)
    /// The longest time in all that jobs wait for another machine to be answered, per edge.
    static let longestHold = Duration.seconds(5)
    /// The longest time in all that the first job waits for its turn, per edge.
    package static let longestTurn = Duration.seconds(10)
    /// The smallest share is one attempt of this many: enough for a site of 2560 machines.
    static let mostSharing = 64
    /// The longest pause after an attempt.
    static let longestPause = Duration.seconds(30)
    /// The number of own successes after which the share doubles.
    static let widening = 4
    /// The most that a share multiplies the delays after own failures.
    static let longestBackoff = (factor: 16, limit: Duration.seconds(60))

    /// The present delay; its end may have passed.
    private(set) var reason = SiteDelay.hold
    private(set) var until = BusTime.past
    private var since = BusTime.past
    /// The time that each delay took since the edge, without the present one.
    private var held = Duration.zero
    private var turned = Duration.zero
    /// True after an answer to this machine: no advice delays it any more.
    private(set) var hasAnswer = false
    /// The share of the window: of so many attempts of the site one is this machine's.
    ///
    /// Above 1, attempts run one at a time with pauses between them.
    private(set) var share = 1
    /// The share that follows from the words: own successes widen it, and own failures narrow it up to this one.
    private(set) var told = 1
    private(set) var successes = 0
    private(set) var failures = 0
    private(set) var pause: Pause?

    /// The pause after an attempt, which grows with the number that share.
    struct Pause: Hashable, Sendable {
        var start: BusTime
        var unit: Duration
        var share: Int
        var isFailure: Bool

        var end: BusTime {
            let (factor, limit) = SiteTurn.longestBackoff
            if isFailure { return start + min(limit, unit * min(share, factor)) }
            return start + min(SiteTurn.longestPause, unit * (share - 1))
        }
    }

    /// The end of the pause after an attempt.
    var pausedUntil: BusTime { pause?.end ?? .past }

    /// Waits for the site's picture.
    mutating func noteEdge(at now: BusTime) {
        self = SiteTurn()
        delay(.hold, for: Self.pictureTime, at: now)
    }

    /// Ends all delays for a person who insists.
    mutating func noteRetryNow(at now: BusTime) {
        stop(at: now)
        (share, told, pause) = (1, 1, nil)
    }

    mutating func take(_ advice: SiteAdvice, at now: BusTime) {
        switch advice {
        case .hold(let time):
            guard !hasAnswer else { return }
            stop(at: now)
            delay(.hold, for: time, at: now)
        case .share(let share): setShare(share)
        case .free(let time, let share):
            setShare(share)
            guard !hasAnswer else { return }
            stop(at: now)
            delay(.turn, for: time, at: now)
        }
    }

    /// Sets the share: words never narrow it after the first success.
    private mutating func setShare(_ new: Int) {
        let new = min(max(1, new), Self.mostSharing)
        if successes > 1 {
            (told, share) = (min(told, new), min(share, new))
        } else {
            (told, share) = (new, new)
        }
        if let pause { self.pause?.share = min(pause.share, new) }
    }

    private mutating func delay(_ reason: SiteDelay, for time: Duration, at now: BusTime) {
        let left = reason == .hold ? Self.longestHold - held : Self.longestTurn - turned
        (self.reason, since, until) = (reason, now, now + max(.zero, min(time, left)))
    }

    /// Ends the present delay and counts its time.
    private mutating func stop(at now: BusTime) {
        (held, turned) = spent(at: now)
        (since, until) = (.past, .past)
    }

    /// Returns the time in all that jobs have waited since the edge for another machine, and for their turn.
    func spent(at now: BusTime) -> (held: Duration, turned: Duration) {
        let time = since == .past ? .zero : max(.zero, min(until, now) - since)
        return reason == .hold ? (held + time, turned) : (held, turned + time)
    }

    /// Records an answer to an attempt since the edge: it counts for more than all words.
    mutating func noteAnswer(at now: BusTime) {
        stop(at: now)
        hasAnswer = true
    }

    /// Records a success: a machine whose share is 1 of n pauses for n − 1 times the duration of the attempt.
    ///
    /// The share doubles with some successes: they prove more than words.
    mutating func noteSuccess(after time: Duration, at now: BusTime) {
        (successes, failures) = (successes + 1, 0)
        guard share > 1 else { return pause = nil }
        pause = Pause(start: now, unit: max(.zero, min(time, Self.longestPause)), share: share, isFailure: false)
        if successes.isMultiple(of: Self.widening) { share /= 2 }
    }

    /// Records a failure that may be due to the crowd; returns its number in a row if a pause follows.
    mutating func noteFailure(at now: BusTime) -> Int? {
        guard told > 1, pausedUntil <= now else { return nil }
        failures += 1
        share = min(told, 2 * share)
        return failures
    }

    /// Pauses after a failure: the more machines share, the longer than the gate's own delay.
    mutating func pause(after delay: Duration, at now: BusTime) {
        pause = Pause(start: now, unit: max(.zero, min(delay, Self.longestBackoff.limit)), share: share, isFailure: true)
    }

    /// The end of the delay or pause of jobs that are not interactive, and its reason; `nil` if there is none.
    func delay(at now: BusTime) -> (end: BusTime, reason: SiteDelay)? {
        let end = max(until, pausedUntil)
        guard end > now else { return nil }
        return (end, until >= pausedUntil ? reason : .share)
    }
}

/// The reason of a delay by the other machines of the site.
package enum SiteDelay: Hashable, Sendable {
    /// Another machine tries first, or the site's picture has not come.
    case hold
    /// Others of the site have been answered, and start one after the other.
    case turn
    /// The site's machines share the window.
    case share
}

/// Advice about a destination that follows from the words of other machines.
package enum SiteAdvice: Hashable, Sendable {
    /// Another machine tries first.
    case hold(Duration)
    /// The machine may try after a time, and of so many attempts of the site one is its own.
    case free(after: Duration, share: Int)
    /// Only the share has changed.
    case share(Int)
}

/// An event of a destination for the other machines.
package enum SiteReport: Hashable, Sendable {
    /// Its gate begins to probe.
    case edge
    /// The number of jobs that wait for it; 0 if it is of no interest any more.
    case waiting(Int)
    /// The destination serves this machine.
    case answered(after: Duration)
    /// The destination is overloaded, and may have ordered a delay.
    case overloaded(for: Duration?)
    /// No answer came, or one that says no more than that the destination fails.
    case unreachable
}
