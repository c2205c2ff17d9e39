/// The places that running attempts lend to the jobs that they wait for.
///
/// A job that an attempt awaits may start in the attempt's place, past the gate and the limits: otherwise the attempt, which holds
/// its place, would wait for ever. One job at a time does so; the others wait for a place of their own, like any job.
struct LoanTable: Sendable {
    /// The jobs of one gate that a lender waits for, apart by whether they wait for their scope.
    struct QueueName: Hashable, Sendable {
        var gate: Int32
        var waitsForScope: Bool
    }

    private struct Loan {
        /// The running job that uses the place.
        var borrower: JobIndex?
        var queues: [QueueName: GateQueue] = [:]
    }

    /// By the lender's job; a loan exists from the first offer until the lender's place is given back.
    private var loans: [JobIndex: Loan] = [:]
    /// The lenders with queued jobs at a gate.
    private var lenders: [Int32: Set<JobIndex>] = [:]
    /// The lenders that may have become able to lend.
    private var dirty: Set<JobIndex> = []

    var isEmpty: Bool { loans.isEmpty }

    /// Returns true if the lender's place is not in use by another job.
    func isFree(_ lender: JobIndex) -> Bool { loans[lender].map { $0.borrower == nil } ?? false }

    func names(of lender: JobIndex) -> [QueueName] { loans[lender].map { Array($0.queues.keys) } ?? [] }

    /// Returns the jobs of a gate that a lender waits for.
    func queue(_ name: QueueName, of lender: JobIndex) -> GateQueue? { loans[lender]?.queues[name] }

    mutating func append(_ entry: GateQueue.Entry, _ name: QueueName, to lender: JobIndex) {
        loans[lender, default: Loan()].queues[name, default: GateQueue()].append(entry)
        lenders[name.gate, default: []].insert(lender)
        dirty.insert(lender)
    }

    mutating func remove(_ name: QueueName, from lender: JobIndex, isCurrent: (GateQueue.Entry) -> Bool) {
        guard loans[lender]?.queues[name] != nil else { return }
        loans[lender]?.queues[name]?.remove(isCurrent: isCurrent)
        guard loans[lender]?.queues[name]?.isEmpty == true else { return }
        loans[lender]?.queues[name] = nil
        forget(lender, name.gate)
    }

    mutating func first(_ name: QueueName, of lender: JobIndex, isCurrent: (GateQueue.Entry) -> Bool) -> GateQueue.Entry? {
        loans[lender]?.queues[name]?.first(isCurrent: isCurrent)
    }

    mutating func setBorrower(_ borrower: JobIndex?, of lender: JobIndex) {
        loans[lender, default: Loan()].borrower = borrower
        if borrower == nil { dirty.insert(lender) }
    }

    /// Ends a loan; returns the job that uses the place.
    mutating func end(_ lender: JobIndex) -> JobIndex? {
        guard !loans.isEmpty, let loan = loans.removeValue(forKey: lender) else { return nil }
        for name in loan.queues.keys { forget(lender, name.gate) }
        dirty.remove(lender)
        return loan.borrower
    }

    /// Records that the jobs of a gate may have become able to start.
    mutating func noteChange(of gate: Int32) {
        if let lenders = lenders[gate] { dirty.formUnion(lenders) }
    }

    /// Records that another job of a lender may be the next.
    mutating func noteChange(ofLender lender: JobIndex) { dirty.insert(lender) }

    mutating func takeDirty() -> Set<JobIndex> {
        defer { dirty = [] }
        return dirty
    }

    private mutating func forget(_ lender: JobIndex, _ gate: Int32) {
        guard loans[lender]?.queues.keys.contains(where: { $0.gate == gate }) != true else { return }
        lenders[gate]?.remove(lender)
        if lenders[gate]?.isEmpty == true { lenders[gate] = nil }
    }
}

extension RetryBusCore {
    /// Lets an attempt wait for a job: from now on it lends the job its place.
    package mutating func lend(_ lender: AttemptKey, to key: JobKey, at now: BusTime) -> [Effect] {
        guard isRunning(lender), let job = self[key], !job.history.lenders.contains(lender) else { return [] }
        let lenders = job.history.lenders.filter(isRunning) + [lender]
        jobs[Int(key.index)]?.history.lenders = lenders
        if job.isQueued {
            let entry = GateQueue.Entry(position: job.position, job: key.index, queueing: job.queueings)
            offer(entry, of: job, to: lender)
            releaseJobs(at: now)
        }
        return takeEffects()
    }

    /// Returns true if an attempt has not ended.
    package func isRunning(_ attempt: AttemptKey) -> Bool {
        self[attempt.job].map { $0.isRunning && $0.history.started == attempt.number } ?? false
    }

    /// Adds a queued job to those that may use an attempt's place.
    mutating func offer(_ entry: GateQueue.Entry, of job: JobState, to lender: AttemptKey) {
        guard isRunning(lender), self[lender.job]?.attempt?.place != Place.none else { return }
        loans.append(entry, LoanTable.QueueName(job), to: lender.job.index)
    }

    /// Removes a job that was queued.
    mutating func withdraw(_ job: JobState, from lender: AttemptKey) {
        guard isRunning(lender) else { return }
        loans.remove(LoanTable.QueueName(job), from: lender.job.index) { [jobs] in
            jobs[Int($0.job)]?.isQueued(as: $0) == true
        }
    }

    /// Starts the jobs that running attempts wait for, each in the place of one of them, the most urgent and oldest first.
    mutating func lendPlaces(at now: BusTime) {
        guard !loans.isEmpty else { return }
        for gate in dirtyGates { loans.noteChange(of: gate) }
        while true {
            var pairs: [(entry: GateQueue.Entry, lender: JobIndex)] = []
            for lender in loans.takeDirty() {
                if let entry = firstBorrower(of: lender, at: now) { pairs.append((entry, lender)) }
            }
            // Each round starts a job, or takes one out of its queue.
            guard !pairs.isEmpty else { return }
            for (entry, lender) in pairs.sorted(by: { ($0.entry, $0.lender) < ($1.entry, $1.lender) }) {
                // Another attempt that waits for the same job may have lent its place.
                if jobs[Int(entry.job)]?.isQueued(as: entry) == true {
                    proceed(entry.job, .free, lender: lender, at: now)
                }
                if loans.isFree(lender) { loans.noteChange(ofLender: lender) }
            }
        }
    }

    /// Returns the job that may use an attempt's place next.
    private mutating func firstBorrower(of lender: JobIndex, at now: BusTime) -> GateQueue.Entry? {
        guard loans.isFree(lender) else { return nil }
        var best: GateQueue.Entry?
        // Nothing passes a delay that a server ordered.
        for name in loans.names(of: lender) where gates[name.gate].throttledUntil <= now {
            guard !name.waitsForScope || conditions[Int(gates.scope(name.gate))]?.isOpen == true else { continue }
            let entry = loans.first(name, of: lender) { [jobs] in jobs[Int($0.job)]?.isQueued(as: $0) == true }
            if let entry, best.map({ entry < $0 }) ?? true { best = entry }
        }
        return best
    }

    // MARK: - Places

    /// Counts an attempt that starts, or puts it in the place of another one.
    mutating func takePlace(_ index: JobIndex, _ gate: Int32, of lender: JobIndex?) {
        if let lender {
            loans.setBorrower(index, of: lender)
            jobs[Int(index)]?.attempt?.place = .borrowed(from: lender)
        } else {
            running += 1
            gates[gate].running += 1
            jobs[Int(index)]?.attempt?.place = .own
        }
    }

    /// Frees the place of an attempt that ends or leaves the limits; a job that uses the place keeps it.
    mutating func givePlaceBack(_ index: JobIndex, _ gate: Int32, _ attempt: RunningState) {
        let heir = loans.end(index)
        jobs[Int(index)]?.attempt?.place = .none
        switch attempt.place {
        case .none: break
        case .borrowed(let lender):
            loans.setBorrower(heir, of: lender)
            if let heir { jobs[Int(heir)]?.attempt?.place = .borrowed(from: lender) }
        case .own:
            gates[gate].running -= 1
            guard let heir, let heirsGate = jobs[Int(heir)]?.gate else { return running -= 1 }
            gates[heirsGate].running += 1
            jobs[Int(heir)]?.attempt?.place = .own
        }
    }
}

extension LoanTable.QueueName {
    init(_ job: JobState) { self.init(gate: job.gate, waitsForScope: job.waitsForScope) }
}
