public import ReachableRetry
internal import Synchronization

extension FleetMember {
    /// The function that takes advice about a destination.
    typealias SharingBus = @Sendable (SiteAdvice, _ destination: String) -> Void

    /// Lets a bus share what it learns about destinations with the other nodes of the site: for `RetryBus.Configuration.site`.
    ///
    /// ```swift
    /// var configuration = RetryBus.Configuration()
    /// configuration.site = member.sharing
    /// let bus = RetryBus(configuration: configuration)
    /// ```
    ///
    /// After a reconnect one machine of the site tries a destination first, and the others start one after the other when it is
    /// served; a refusal or a failure of the server does not count. What other nodes say delays jobs by at most 5 s until one of
    /// them is served, and then by at most 10 s until this machine's turn; an answer to this machine ends both. Interactive jobs
    /// and jobs without a destination never wait for it. With more than 40 machines that wait, each then pauses between its
    /// attempts until its own successes, or the ends of the others, widen its share.
    ///
    /// Without a broker a bus waits 1 s after a reconnect and then acts alone, as it does for an observer. Its pauses are at first
    /// those of as many machines as waited with this one when the broker was lost, and of half as many every 10 s. Use one member
    /// for several buses if they have destinations in common. The member is not kept alive by its buses.
    public var sharing: SiteSharing {
        SiteSharing { [weak self] advise in
            guard let self else { return SiteSharing.Link(report: { _, _ in }, leave: {}) }
            let number = state.withLock { state in
                state.lastBus += 1
                state.buses[state.lastBus] = advise
                return state.lastBus
            }
            return SiteSharing.Link { [weak self] destination, report in
                self?.send(Item(event: .destination(destination, report, bus: number)))
            } leave: { [weak self] in
                // Released without the lock.
                let bus = self?.state.withLock { $0.buses.removeValue(forKey: number) }
                if bus != nil { self?.send(Item(event: .busEnded(number))) }
            }
        }
    }
}
