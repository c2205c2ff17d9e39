/// The exchange with the other machines of the site, if the bus has any.
extension RetryBusCore {
    /// A report about a destination.
    package struct SiteMessage: Hashable, Sendable {
        package var destination: String
        package var report: SiteReport
    }

    /// Removes and returns the reports since the last call.
    package mutating func takeSiteReports() -> [SiteMessage] {
        defer { siteReports = [] }
        return siteReports
    }

    /// Takes advice about a destination.
    package mutating func take(_ advice: SiteAdvice, for destination: String, at now: BusTime) -> [Effect] {
        guard sharesSite else { return [] }
        for gate in gates.all(to: destination) {
            gates[gate].site.take(advice, at: now)
            dirtyGates.append(gate)
        }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Reports an event of a gate.
    ///
    /// Jobs without a destination may use different servers, and without canaries nothing waits for others.
    mutating func tellSite(_ gate: Int32, _ report: SiteReport) {
        guard sharesSite, release.rules.hasCanaries, let destination = gates.destination(gate) else { return }
        siteReports.append(SiteMessage(destination: destination, report: report))
    }

    /// Records what an edge would let a job do: nothing before the start of its life, or if it heeds no edge.
    mutating func setWish(_ index: JobIndex, _ wish: JobState.Wish, at now: BusTime) {
        guard sharesSite, let job = jobs[Int(index)] else { return }
        var wish = job.heedsScope ? wish : .nothing
        let isEarly = job.history.started == 0 && job.history.hard > now
        if isEarly { wish = wish == .attempt ? .later : .nothing }
        guard wish != job.wish else { return }
        gates[job.gate].count(job.wish, -1)
        gates[job.gate].count(wish, 1)
        jobs[Int(index)]?.wish = wish
        dirtyGates.append(job.gate)
    }

    /// Reports the number of jobs that wait, if it has changed much.
    mutating func tellSiteAboutJobs(of gate: Int32) {
        let isOpen = conditions[Int(gates.scope(gate))]?.isOpen == true
        let (attempts, retries) = (gates[gate].attempts, gates[gate].retries)
        let count =
            switch gates[gate].phase {
            case .probing: attempts + retries
            case .ramping where gates[gate].queues.gatedCount > 0: attempts + retries
            // Jobs that pass do not wait for the destination. Those that back off would try with all others after an edge.
            case .ramping, .open: isOpen ? retries : attempts + retries
            }
        let told = gates[gate].siteWaiting
        let isNews = (count == 0) != (told == 0) || count >= 2 * told || 2 * count <= told
        guard isNews, count != told else { return }
        gates[gate].siteWaiting = count
        tellSite(gate, .waiting(count))
    }

    /// Reports the end of a gate's last job.
    mutating func tellSiteAboutEnd(of gate: Int32) {
        dirtyGates.append(gate)
        guard gates[gate].uses == 1, gates[gate].siteWaiting != 0 else { return }
        gates[gate].siteWaiting = 0
        tellSite(gate, .waiting(0))
    }

    /// Records that a job's destination serves it: before the gate's phase changes.
    mutating func noteAnswerAtSite(_ key: JobKey, _ job: JobState, at now: BusTime) {
        guard sharesSite, job.history.round == gates[job.gate].round, gates[job.gate].phase != .open,
            QueueClass(job).isGated
        else { return }
        let time = gates[job.gate].start(of: key).map { now - $0 } ?? .zero
        gates[job.gate].site.noteAnswer(at: now)
        gates[job.gate].site.noteSuccess(after: time, at: now)
        tellSite(job.gate, .answered(after: time))
    }

    /// Records a failure that is not the job's own at its gate, after which machines that share the window pause.
    ///
    /// A server that refuses connections or fails has answered this machine, and is no reason for the others to try.
    mutating func noteFailureAtSite(_ job: JobState, _ fault: AttemptFailure.Fault, isAnswer: Bool, at now: BusTime) {
        guard sharesSite, job.history.round == gates[job.gate].round, gates[job.gate].phase != .open,
            conditions[Int(job.scope)]?.isSatisfied == true
        else { return }
        let report: SiteReport
        switch fault {
        case .overload(let delay): report = .overloaded(for: delay)
        case .network, .unknown, .server: report = .unreachable
        case .request, .local: return
        }
        if isAnswer { gates[job.gate].site.noteAnswer(at: now) }
        if let number = gates[job.gate].site.noteFailure(at: now) {
            let delay = release.rules.delay(afterFailure: number, isOverload: true, &random)
            gates[job.gate].site.pause(after: delay, at: now)
        }
        tellSite(job.gate, report)
    }
}
