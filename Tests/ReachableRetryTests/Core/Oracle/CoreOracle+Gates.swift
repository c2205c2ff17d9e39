@testable import ReachableRetry

/// The release of jobs.
extension CoreOracle {
    /// The constants of the rules.
    static let (firstWidth, bulkShare, mostFailed) = (2, 8, 4)
    static let (longRun, settling) = (Duration.seconds(5), Duration.seconds(30))

    private func uses(_ gate: Int, _ job: Int) -> Bool { jobs[job].gate == gate && jobs[job].state != .ended }

    /// Returns the queued jobs of a gate, in order.
    func queue(_ gate: Int, _ isWanted: (Job) -> Bool = { _ in true }) -> [(position: QueuePosition, job: Int)] {
        jobs.indices.filter { uses(gate, $0) && jobs[$0].place == .queued && isWanted(jobs[$0]) }
            .compactMap { job in jobs[job].position.map { ($0, job) } }.sorted { $0.0 < $1.0 }
    }

    /// Returns the running attempts that count for a gate.
    private func counted(_ gate: Int) -> [Int] {
        running.filter { uses(gate, $0) && jobs[$0].pass != .free }
    }

    /// Returns the gate of a scope and destination, and adds it if it is new.
    mutating func gate(_ scope: Int, _ destination: String?) -> Int {
        if let gate = gates.firstIndex(where: { !$0.isGone && $0.scope == scope && $0.destination == destination }) { return gate }
        gates.append(Gate(scope: scope, destination: destination))
        // A recent edge, before the gate existed.
        let hasNewEdge = conditions[scope].edges.last.map { now <= $0 + Self.settling } ?? false
        if conditions[scope].isUnsteady || hasNewEdge { noteEdge(gates.count - 1) }
        return gates.count - 1
    }

    // MARK: - Events at a gate

    mutating func noteEdge(_ gate: Int) {
        guard release.hasCanaries else { return }
        gates[gate].phase = .probing
        gates[gate].round += 1
        (gates[gate].failures, gates[gate].retryAt, gates[gate].pauseAt) = (0, .past, .past)
        gates[gate].isOverloaded = false
        gates[gate].isUnsteady = conditions[gates[gate].scope].isUnsteady
        gates[gate].spreadUntil = conditions[gates[gate].scope].spreadUntil
        gates[gate].canaryAt = conditions[gates[gate].scope].canaryAt
    }

    mutating func noteRetryNow(_ gate: Int) {
        gates[gate].failures = 0
        (gates[gate].retryAt, gates[gate].pauseAt) = (.past, .past)
        (gates[gate].isUnsteady, gates[gate].spreadUntil, gates[gate].canaryAt) = (false, .past, .past)
    }

    /// Moves jobs on, in order; those that begin to queue were let go, and do not start all at once.
    mutating func letGo(_ held: [Int]) {
        let free = held.filter { jobs[$0].place != .queued }
        for job in inOrder(held) { advance(job) }
        for job in free where jobs[job].place == .queued { noteBacklog(jobs[job].gate) }
    }

    /// Lets queued jobs go in steps if more of them would run than the last good window, or more than one on a path unproved.
    mutating func noteBacklog(_ gate: Int) {
        retireLongRuns(gate)
        let waiting = queue(gate, \.isGated).count
        guard release.hasCanaries, gates[gate].phase == .open, waiting > 0 else { return }
        let isProven = conditions[gates[gate].scope].answeredIn == conditions[gates[gate].scope].epoch
        let width = min(gates[gate].width, release.maxInFlight)
        let counting = counted(gate).filter { jobs[$0].pass != .bypass || jobs[$0].round != gates[gate].round }
        guard counting.count + waiting > (isProven ? width : 1) else { return }
        (gates[gate].phase, gates[gate].width, gates[gate].passed) = (isProven ? .ramping : .probing, width, 0)
    }

    mutating func noteStart(_ index: Int) {
        let job = jobs[index]
        guard job.isGated else { return }
        let isPaced = !release.hasCanaries || gates[job.gate].phase != .open && job.priority != .interactive
        if isPaced, let pace = release.pace { gates[job.gate].dueAt = max(gates[job.gate].dueAt, now) + pace.interval }
        gates[job.gate].sinceBulk = job.priority == .bulk ? 0 : gates[job.gate].sinceBulk + 1
    }

    /// Records that the server answered.
    mutating func noteAnswer(_ index: Int) {
        let job = jobs[index]
        conditions[job.scope].answers += 1
        conditions[job.scope].answeredIn = job.armedScopeEpoch
        gates[job.gate].reachedIn = job.armedScopeEpoch
    }

    /// Returns the gate after an answer or a success.
    private func proven(_ gate: Gate) -> Gate {
        var gate = gate
        (gate.failures, gate.retryAt, gate.pauseAt) = (0, .past, .past)
        if gate.phase == .probing {
            (gate.phase, gate.width, gate.passed) = (.ramping, min(Self.firstWidth, release.maxInFlight), 0)
        }
        return gate
    }

    /// Records a success, which widens the window.
    mutating func notePassage(_ index: Int) {
        let old = gates[jobs[index].gate]
        guard jobs[index].round == old.round else { return }
        var gate = old
        (gate.failed, gate.isOverloaded) = ([], false)
        gate = proven(gate)
        if old.phase == .ramping {
            gate.passed += 1
            if gate.passed >= gate.width {
                let good = gate.goodWidth ?? .max
                // More than twenty machines that double at once are a storm.
                let wider = gate.width < good && fleetSize <= 20 ? min(good, gate.width * 2) : gate.width + 1
                (gate.width, gate.passed) = (min(wider, release.maxInFlight), 0)
            }
        }
        gates[jobs[index].gate] = gate
    }

    /// Records a network failure on a satisfied path and returns the end of the job's delay.
    mutating func noteNetworkFailure(_ index: Int) -> BusTime {
        let (place, job) = (jobs[index].gate, jobs[index])
        var gate = gates[place]
        if gate.phase == .probing, gate.retryAt > now { return gate.retryAt }
        guard job.round == gate.round else { return now + delay(1, isGate: false) }
        let isFirst = gate.failures == 0 && gate.reachedIn == job.armedScopeEpoch
        (gate.phase, gate.isOverloaded) = (.probing, false)
        gate.failures += 1
        let end = now + delay(gate.failures)
        if !isFirst { gate.retryAt = end }
        gates[place] = gate
        return end
    }

    /// Records a charged failure.
    mutating func noteCharge(_ index: Int, _ fault: AttemptFailure.Fault, isAnswered: Bool) {
        let (place, job) = (jobs[index].gate, jobs[index])
        defer { noteServerDelay(place, fault) }
        guard release.hasCanaries, job.isGated else { return }
        if fault == .request { return notePassage(index) }
        var gate = gates[place]
        let isRecent = job.round == gate.round
        // Jobs without a destination may use different servers.
        let isShared = gate.destination != nil
        var isOverload = false
        if case .overload = fault { isOverload = isShared }
        if isRecent, isAnswered, !isOverload, !gate.isOverloaded { gate = proven(gate) }
        var isWide = gate.isOverloaded && fault == .server
        var isServers = fault == .server
        if case .overload = fault { isServers = true }
        if isServers, isShared {
            if !gate.failed.contains(index) { gate.failed.append(index) }
            if gate.failed.count >= Self.mostFailed { (gate.failed, isWide) = ([], true) }
            if isWide { isOverload = true }
        }
        if isRecent, isOverload {
            if gate.phase == .ramping, gate.width > 1 {
                gate.width /= 2
                (gate.goodWidth, gate.passed) = (gate.width, 0)
            } else if gate.phase != .open || isWide {
                (gate.phase, gate.isOverloaded) = (.probing, true)
            }
        }
        if isRecent, isOverload || !isAnswered, gate.phase == .probing, gate.retryAt <= now, gate.pauseAt <= now {
            gate.failures += 1
            gate.pauseAt = now + delay(gate.failures, isOverload: isOverload)
        }
        gates[place] = gate
    }

    /// Records a delay ordered by a server: it applies to the whole destination under every release policy.
    private mutating func noteServerDelay(_ place: Int, _ fault: AttemptFailure.Fault) {
        guard gates[place].destination != nil, case .overload(let delay?) = fault, delay > .zero else { return }
        gates[place].throttledUntil = max(gates[place].throttledUntil, now + delay)
        if release.hasCanaries, gates[place].phase == .open {
            (gates[place].phase, gates[place].width, gates[place].passed) = (.ramping, Self.firstWidth, 0)
        }
    }

    /// Returns the gate's delay after this many failures: doubled each time up to a limit, less up to half as jitter.
    ///
    /// - Parameter isGate: True for the gate's delay, which other machines must not share.
    private mutating func delay(_ number: Int, isOverload: Bool = false, isGate: Bool = true) -> Duration {
        let longest = isOverload ? max(release.maximumBackoff, .seconds(60)) : release.maximumBackoff
        let full = (1..<max(1, number)).reduce(min(release.backoff, longest)) { delay, _ in min(delay + delay, longest) }
        let own = release.isJittered ? full / 2 + (full / 2).scaled(by: Backoff.random(random.next())) : full
        guard fleetSize > 1, isGate else { return own }
        return max(own, Duration.milliseconds(min(60_000, 60 * (fleetSize - 1))).scaled(by: Backoff.random(random.next())))
    }

    /// Stops counting attempts that run for long.
    mutating func retireLongRuns(_ gate: Int) {
        for index in counted(gate) where jobs[index].startedAt + Self.longRun <= now {
            jobs[index].pass = .free
        }
    }

    // MARK: - Release

    /// The limit of running attempts: after a shortage as many as ran then, and one more each second.
    private var mostRunning: Int {
        guard let shortage else { return maxConcurrent }
        return min(maxConcurrent, shortage.limit + Int((now - shortage.since).components.seconds))
    }

    /// The time at which the limit after a shortage grows, if a job waits for that.
    var timeOfNextPlace: BusTime {
        guard let shortage, running.count < maxConcurrent, gates.contains(where: { $0.offer != nil }) else { return .never }
        return shortage.since + .seconds(max(0, running.count - shortage.limit + 1))
    }

    private struct Offer {
        var position: QueuePosition
        var job: Int
        var pass: Pass
    }

    /// Starts the jobs of dirty gates that may start: the most urgent and oldest first.
    mutating func releaseJobs() {
        for gate in dirtyGates { renewOffer(gate) }
        dirtyGates = []
        while running.count < mostRunning {
            let offers = gates.indices.compactMap { gate in gates[gate].offer.map { ($0, gate) } }
            let preferred = offers.filter { $0.0.priority == .interactive || !hasHalf($0.1) }
            guard let (position, gate) = (preferred.isEmpty ? offers : preferred).min(by: { $0.0 < $1.0 }) else { return }
            gates[gate].offer = nil
            guard let offer = nextOffer(gate) else { continue }
            if offer.position == position, !endIfOver(offer.job), !delayIfNeeded(offer.job) { start(offer.job, offer.pass) }
            renewOffer(gate)
        }
    }

    /// Returns the number of running attempts of a gate's destination; 0 without a destination.
    private func ofDestination(_ gate: Int) -> Int { gates[gate].destination == nil ? 0 : running.count { uses(gate, $0) } }

    /// Returns `true` if a destination has half of all places; it gets no more while others wait.
    private func hasHalf(_ gate: Int) -> Bool { maxConcurrent < .max && ofDestination(gate) >= max(1, maxConcurrent / 2) }

    private mutating func renewOffer(_ gate: Int) {
        if let offer = nextOffer(gate) { gates[gate].offer = offer.position }
    }

    /// Returns the job that a gate starts next; if there is none, sets the gate's timer.
    private mutating func nextOffer(_ gate: Int) -> Offer? {
        let isEmpty = queue(gate).isEmpty
        if !isEmpty { retireLongRuns(gate) }
        // The queue is empty.
        if queue(gate, \.isGated).isEmpty, gates[gate].phase == .ramping, gates[gate].throttledUntil <= now {
            (gates[gate].phase, gates[gate].passed) = (.open, 0)
        }
        guard !isEmpty else { return nil }
        let scope = conditions[gates[gate].scope]
        var offers: [Offer] = []
        var times: [BusTime] = []
        let (isFull, throttledUntil) = (ofDestination(gate) >= maxPerDestination, gates[gate].throttledUntil)
        // A delay ordered by the server applies to all jobs.
        func offerFirst(_ isWanted: (Job) -> Bool) {
            guard let first = queue(gate, isWanted).first else { return }
            if throttledUntil > now {
                times.append(throttledUntil)
            } else if !isFull {
                offers.append(Offer(position: first.position, job: first.job, pass: .free))
            }
        }
        offerFirst { !$0.waitsForScope }
        if scope.isOpen { offerFirst { $0.variant.bypassesGate && $0.waitsForScope } }
        for priority in priorities(gate) where scope.isOpen {
            guard let first = queue(gate, { $0.isGated && $0.priority == priority }).first else { continue }
            switch permission(gate, first.job) {
            case .pass where isFull: continue
            case .pass(let pass): offers.append(Offer(position: first.position, job: first.job, pass: pass))
            case .time(let time): times.append(time)
            }
            if offers.last?.job == first.job { break }
        }
        if offers.isEmpty { gates[gate].timer = times.min() ?? .never }
        return offers.min { $0.position < $1.position }
    }

    /// Returns the order of priorities: bulk first at its turn.
    private func priorities(_ gate: Int) -> [JobPriority] {
        let isLimited = release.hasCanaries || release.pace != nil || maxConcurrent < .max || shortage != nil
        let isBulksTurn =
            isLimited && gates[gate].sinceBulk >= Self.bulkShare - 1
            && queue(gate, { $0.isGated && $0.priority == .interactive }).isEmpty
        return isBulksTurn ? [.bulk, .normal] : [.interactive, .normal, .bulk]
    }

    private enum Permission {
        case pass(Pass)
        case time(BusTime)
    }

    private func permission(_ place: Int, _ index: Int) -> Permission {
        let (gate, job) = (gates[place], jobs[index])
        let isInteractive = job.priority == .interactive
        let paceTime = release.pace.map { gate.dueAt + (.zero - $0.tolerance) } ?? .past
        if gate.throttledUntil > now { return .time(gate.throttledUntil) }
        guard release.hasCanaries else { return paceTime > now ? .time(paceTime) : .pass(.free) }
        if gate.phase == .open { return .pass(.window) }

        let runs = counted(place)
        let canaries = runs.count { jobs[$0].pass == .canary && jobs[$0].round == gate.round }
        let bypassing = runs.count { jobs[$0].pass == .bypass && jobs[$0].round == gate.round }
        var time = BusTime.past
        if !isInteractive, gate.isUnsteady {
            // Until the path is steady.
            time = .never
        } else if job.priority == .bulk, gate.spreadUntil > now {
            time = gate.spreadUntil
        } else if !isInteractive, gate.phase == .probing, gate.canaryAt > now {
            time = gate.canaryAt
        } else if gate.phase == .probing ? canaries > 0 : runs.count - bypassing >= gate.width {
            time = runs.map { jobs[$0].startedAt + Self.longRun }.min() ?? .never
        } else if gate.phase == .probing {
            // A gate's only job keeps just its own delays.
            let isAlone = jobs.indices.count { uses(place, $0) } == 1 && job.lastWasCharged
            time = isAlone ? gate.retryAt : max(gate.retryAt, gate.pauseAt)
        } else if !isInteractive {
            time = paceTime
        }
        if time <= now { return .pass(gate.phase == .probing ? .canary : .window) }
        return isInteractive && bypassing < release.interactiveBypass ? .pass(.bypass) : .time(time)
    }
}
