import CommandKit
import Glibc
import Reachability

/// The log of `watch --log`: the lines of docs/json.md in a file, for `report`.
///
/// Standard output may be blocked meanwhile. Each file begins with the state of every scope, so that it can be read alone. While
/// the file cannot be written, the watch goes on, and the log continues with a new beginning once it can.
actor WatchLog {
    /// The longest time without a line, and so the time that is in doubt after the process was killed.
    static let heartbeat = Duration.seconds(300)
    /// The time between two attempts to continue after a failure.
    static let retryInterval = Duration.seconds(30)

    private let file: LogFile
    private let scopes: [Scope]
    private let clock: any Clock<Duration>
    private let now: @Sendable () -> Moment
    /// The last transition of each scope; `nil` before its baseline.
    private var last: [Transition?]
    /// True once a line is written: later baselines continue its watch.
    private var hasBegun = false
    private var isFailing = false
    private var isOver = false
    private var timer = ActorTimer()
    private var note: @Sendable (String) -> Void = { _ in }

    /// Opens the file.
    init(
        _ place: LogFile.Place, scopes: [Scope], clock: any Clock<Duration> = ContinuousClock(),
        now: @escaping @Sendable () -> Moment = { .now }
    ) throws(CommandFailure) {
        file = LogFile(place)
        self.scopes = scopes
        (self.clock, self.now) = (clock, now)
        last = scopes.map { _ in nil }
        try file.open()
    }

    /// Writes the transitions of the scopes, in their order, until the streams finish.
    ///
    /// - Parameter note: Takes messages about the file.
    func record(_ transitions: [AsyncStream<Transition>], _ note: @escaping @Sendable (String) -> Void) async {
        self.note = note
        _ = await MonitorSession.consume(transitions) { [self] index, transition in
            await write(transition, ofScopeAt: index)
            return nil
        }
    }

    /// Writes a transition.
    func write(_ transition: Transition, ofScopeAt index: Int) {
        // The end of the watch follows, and says the same.
        guard transition.cause.kind != .ended else { return }
        let moment = Moment(at: transition.at, wallTime: transition.wallTime)
        // Before a line that begins a file comes the state that it changes, with what changed without a line.
        if let previous = transition.previous { last[index]?.current = previous }
        append(JSONValue.transition(transition, of: scopes[index]), at: moment)
        last[index] = transition
    }

    /// Opens the file again, after another program moved it away.
    func reopen() {
        file.close()
        append(nil, at: now())
    }

    /// Writes the end of the watch; later lines are dropped.
    func end() {
        append(.watch("end", now()), at: now())
        isOver = true
        timer.cancel()
        file.close()
    }

    private func beat() {
        append(.watch("alive", now()), at: now())
    }

    /// Appends a line, after a new beginning where one is due; without a line only the beginning.
    private func append(_ line: JSONValue?, at moment: Moment) {
        guard !isOver else { return }
        do throws(CommandFailure) {
            try write(line, at: moment)
            if isFailing { note("\(file.name) is written again") }
            isFailing = false
        } catch {
            // The next append opens the file again: it may have been moved or unmounted.
            file.close()
            if !isFailing { note("\(error.message); the log continues when it can") }
            isFailing = true
        }
        timer.set(after: isFailing ? Self.retryInterval : Self.heartbeat, on: clock) { [self] in await beat() }
    }

    private func write(_ line: JSONValue?, at moment: Moment) throws(CommandFailure) {
        let isDeleted = file.isOpen && file.isDeleted
        if isDeleted { file.close() }
        var begins = !file.isOpen
        if begins { try file.open() } else { begins = try file.isAtBeginning() }
        if isDeleted { note("\(file.name) was deleted and begins again; next: end the watch before you delete its log") }
        let text = line.map { "\($0)\n" } ?? ""
        var bytes = Array(((begins ? beginning(at: moment) : "") + text).utf8)
        if file.isFull(adding: bytes.count) {
            if let problem = try file.rotate() { note(problem) } else { bytes = Array((beginning(at: moment) + text).utf8) }
        }
        try file.append(bytes)
        hasBegun = hasBegun || !bytes.isEmpty
    }

    /// Returns the lines of the present states.
    private func beginning(at moment: Moment) -> String {
        zip(scopes, last).map { scope, transition in
            guard let transition else { return "" }
            let cause = transition.current.status == .unknown ? transition.cause : Cause(.started, "another file begins")
            let halfLives = transition.at.duration(to: moment.at) / FlapPenalty.halfLife
            let baseline = Transition(
                sequence: transition.sequence, epoch: transition.epoch, previous: nil, current: transition.current, kinds: [],
                cause: cause, at: moment.at, wallTime: moment.wallTime, flapPenalty: transition.flapPenalty * exp2(-halfLives))
            return "\(JSONValue.transition(baseline, of: scope, isContinued: hasBegun))\n"
        }.joined()
    }
}
