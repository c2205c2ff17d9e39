internal import Logging
internal import Reachability
internal import ReachableRetry
internal import Synchronization

extension FleetMember {
    /// The longest time of an end in order.
    static let farewell = Duration.seconds(3)
    /// The longest delay between two attempts to connect.
    private static let longestBackoff = Duration.seconds(5)
    /// The outage that a connection outlives.
    static let longestSilence = Duration.seconds(5)
    /// The delay after a failure that only a person can end.
    private static let refusedDelay = Duration.seconds(30)

    /// The news of one connection for the task that made it.
    enum SessionEvent: Sendable {
        case opened
        case ended(FleetError?)
    }

    /// A connection that the broker has accepted.
    private struct Session: Sendable {
        var events: AsyncStream<SessionEvent>
        var began: BusTime
    }

    /// The member ends.
    private struct Stopped: Error {}

    // MARK: - Connecting

    /// Connects, and connects again after each loss, until the task is cancelled.
    func stayConnected() async {
        var delay = ReconnectDelay(seed: seed)
        while !Task.isCancelled {
            let session: Session
            do {
                session = try await connect()
            } catch {
                if error is Stopped || error is CancellationError || Task.isCancelled { return }
                await pause(Self.longestBackoff)
                continue
            }
            var end: SessionEvent?
            for await event in session.events { end = event }
            // Without an end the task was cancelled; one without a failure was this member's own, for a higher epoch.
            guard case .ended(let failure) = end else { return }
            if failure != nil { await pause(delay.next(after: bus.clock.now() - session.began)) }
        }
    }

    /// Ends the connection when the way to the broker is lost for some time; the next one is made when it is back.
    ///
    /// TCP would go on after a pause that grows with the outage (RFC 6298 §5.5). Meanwhile the words of others would be missing,
    /// and the picture would seem current. A short outage ends no connection, because all machines would make new ones at once.
    /// The network's absence is no failure of the broker: no pause follows.
    func followPath(to scope: Scope) async {
        var cancel: (@Sendable () -> Void)?
        for await transition in monitor.transitions(to: scope) {
            cancel?()
            // A connection needs no name server.
            guard transition.current.status == .unsatisfied, transition.current.offlineReason != .unresolved else { continue }
            cancel = bus.clock.schedule(bus.clock.now() + Self.longestSilence) { [weak self] in
                self?.state.withLock(\.link)?.close()
            }
        }
        cancel?()
    }

    private func connect() async throws -> Session {
        let policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil).giveUpAfter(elapsed: nil)
            .backoff(.exponential(initial: .milliseconds(250), maximum: Self.longestBackoff).jitter(.full))
            .connectivity(brokerScope == nil ? .ignore : .wait(upTo: nil))
            .giveUpOnErrors { $0 is Stopped }
            .classify { error in
                guard let error = error as? FleetError else { return nil }
                return error.needsPerson ? .overload(retryAfter: Self.refusedDelay) : .network
            }
        // Members of one program may share a bus: the failures of one name say nothing about another one.
        let options = JobOptions(destination: "\(transport.place) as \(node?.description ?? "an observer") of \(site)")
        return try await bus.retry(policy, to: brokerScope ?? .internet, options: options) { _ in try await self.attempt() }
    }

    /// Makes one attempt to connect.
    private func attempt() async throws -> Session {
        let (events, news) = AsyncStream.makeStream(of: SessionEvent.self)
        guard let plan = await prepare() else { throw Stopped() }
        if let epoch = plan.epoch, let epochFile {
            let failure = await epochFile.store(epoch)
            if failure != 0 {
                configuration.logger?.warning(
                    "the number of the fleet's connection was not stored",
                    metadata: ["file": "\(epochFile.path)", "errno": "\(failure)"])
            }
        }
        let link = transport.link(plan.connection) { [weak self] event in self?.receive(event, of: plan.number, news) }
        guard install(link, plan.number) else { throw Stopped() }
        link.open()
        return try await withTaskCancellationHandler {
            for await event in events {
                switch event {
                case .opened: return Session(events: events, began: bus.clock.now())
                case .ended(let failure): throw failure ?? FleetError(.connectionLost, subject: "the connection ended")
                }
            }
            link.close()
            throw CancellationError()
        } onCancel: {
            link.close()
        }
    }

    /// The facts of the next connection.
    private struct Plan: Sendable {
        var connection: FleetConnection
        var epoch: UInt64?
        var number: UInt64
    }

    private func prepare() async -> Plan? {
        await withCheckedContinuation { continuation in
            let completion = { @Sendable (effects: [FleetCore.Effect], number: UInt64) in
                var plan: Plan?
                for case .connect(let connection) in effects { plan = Plan(connection: connection, number: number) }
                for case .store(let epoch) in effects { plan?.epoch = epoch }
                continuation.resume(returning: plan)
            }
            send(Item(event: .connecting, completion: completion))
        }
    }

    private func install(_ link: any FleetLink, _ number: UInt64) -> Bool {
        state.withLock { state in
            guard state.linkNumber == number, !state.core.isStopped else { return false }
            state.link = link
            return true
        }
    }

    /// Takes an event of a connection; those of an earlier one are dropped.
    private func receive(_ event: FleetLinkEvent, of number: UInt64, _ news: AsyncStream<SessionEvent>.Continuation) {
        switch event {
        case .connected:
            setFailure(nil, of: number)
            send(Item(event: .connected, link: number))
            news.yield(.opened)
        case .subscribed: send(Item(event: .subscribed, link: number))
        case .message(let message): send(Item(event: .message(message), link: number))
        case .ended(let failure):
            if let failure { setFailure(failure, of: number) }
            send(Item(event: .disconnected, link: number))
            news.yield(.ended(failure))
            news.finish()
        }
    }

    private func setFailure(_ failure: FleetError?, of number: UInt64) {
        let isNews = state.withLock { state in
            guard state.linkNumber == number, state.lastFailure != failure else { return false }
            state.lastFailure = failure
            return true
        }
        if isNews { log(failure) }
    }

    func log(_ failure: FleetError?) {
        guard let logger = configuration.logger else { return }
        guard let failure else {
            return logger.info("the fleet's broker is connected", metadata: ["broker": "\(transport.place)"])
        }
        let level: Logger.Level = failure.needsPerson ? .error : .warning
        logger.log(level: level, "\(failure)", metadata: ["broker": "\(transport.place)"])
    }

    /// Waits for a time, or until the task is cancelled.
    private func pause(_ duration: Duration) async {
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        let cancel = bus.clock.schedule(bus.clock.now() + duration) { continuation.finish() }
        for await _ in stream {}
        cancel()
    }

    // MARK: - The end

    /// Ends the connection in order; the task is cancelled already, and no attempt is left.
    func leave() async {
        let (link, isOpening) = state.withLock { ($0.link, $0.core.link == .opening) }
        // An attempt that was cut before it had a connection.
        if isOpening { send(Item(event: .disconnected)) }
        let cancel = bus.clock.schedule(bus.clock.now() + Self.farewell) { link?.close() }
        await withCheckedContinuation { continuation in
            state.withLock { $0.onEnd = { continuation.resume() } }
            send(Item(event: .stop))
        }
        cancel()
    }
}
