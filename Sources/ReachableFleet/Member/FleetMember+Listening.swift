public import Reachability
internal import ReachableRetry
internal import Synchronization

extension FleetMember {
    // MARK: - Looking

    /// A snapshot of all nodes.
    ///
    /// It is unknown before the first connection and after the end of ``run()``. A read of memory.
    public var nodes: FleetPicture {
        let now = now
        // The words are copied with the next one that comes, not under the lock.
        let core = state.withLock(\.core)
        return core.picture(at: now)
    }

    /// The changes of the picture, after a baseline.
    ///
    /// The first element is the baseline, ``FleetChange/Kind/current`` or ``FleetChange/Kind/unknown``, with the number of the last
    /// change: read ``nodes`` then. Each access makes a stream of its own, for one iteration. A slow listener loses the oldest
    /// elements beyond ``Configuration/bufferedChanges``, and sees the gap in ``FleetChange/sequence``. The stream finishes when
    /// ``run()`` ends. Ending the iteration or cancelling its task ends the subscription.
    public var changes: AsyncStream<FleetChange> {
        let listener = Subscription<FleetChange>(limit: configuration.bufferedChanges)
        let id = state.withLock { $0.phase == .ended ? nil : $0.listeners.add(listener, to: 0) }
        guard let id else {
            listener.finish()
            return listener.stream {}
        }
        handleEvents()
        return listener.stream { [weak self] in _ = self?.state.withLock { $0.listeners.remove(id, from: 0) } }
    }

    /// True while the broker is connected.
    public var isConnected: Bool { state.withLock { $0.core.link == .up } }

    /// The reason why the last connection ended or was not made, with the remedy; `nil` while connected and before the first one.
    ///
    /// While connected, it is ``FleetError/Code/notHeard`` if the broker drops the node's words.
    public var lastFailure: FleetError? { state.withLock(\.lastFailure) }

    /// The numbers of messages that were ignored.
    public var counts: FleetCounts { state.withLock(\.core.counts) }

    // MARK: - Waiting

    /// The number of nodes and policies with a condition, for tests of leaks.
    var conditionCount: Int { state.withLock(\.conditions.count) }

    struct ConditionKey: Hashable, Sendable {
        var node: FleetName
        var policy: UnknownNodePolicy
    }

    struct NodeCondition: Sendable {
        var source: ConditionSource
        var uses: Int
    }

    /// Returns a condition that is satisfied while a node is online or degraded, for the jobs of any bus or queue.
    ///
    /// ```swift
    /// let nas = try FleetName("nas")
    /// try await bus.retry(options: JobOptions(when: [member.condition(for: nas)])) { _ in try await backUp() }
    /// ```
    ///
    /// While the picture is unknown the level of the last word is kept for 60 s; then the policy decides. A node that the broker
    /// has no word of is not there. When ``run()`` ends the condition has the policy's level and finishes.
    ///
    /// - Parameters:
    ///   - name: The node.
    ///   - policy: The level after the picture was unknown for 60 s: by default work starts.
    public func condition(for name: FleetName, whenUnknown policy: UnknownNodePolicy = .failOpen) -> Condition {
        let (key, now) = (ConditionKey(node: name, policy: policy), now)
        let source = state.withLock { state -> ConditionSource? in
            guard state.phase != .ended else { return nil }
            let source =
                state.conditions[key]?.source
                ?? ConditionSource(
                    "node \(name)", isSatisfied: state.core.isPresent(name, whenUnknown: policy, at: now.time))
            state.conditions[key] = NodeCondition(source: source, uses: (state.conditions[key]?.uses ?? 0) + 1)
            return source
        }
        guard let source else {
            let ended = ConditionSource("node \(name)", isSatisfied: policy == .failOpen)
            ended.finish()
            return ended.condition
        }
        let share = ConditionShare { [weak self] in
            // Released without the lock.
            _ = self?.state.withLock { $0.release(key) }
        }
        return Condition(source.condition.name, source.condition.storage, lifetime: share)
    }

    // MARK: - Asking all nodes

    /// Asks all nodes of the site to act, and returns when the broker has shown the request to this member, as it does to all.
    ///
    /// Each node acts at most once, at a time of its own within 10 s, unless the request is too old by then. Nodes that are not
    /// connected never hear of it. Cancelling the task takes nothing back.
    ///
    /// - Parameters:
    ///   - name: What to do, such as `retry`; the programs of a fleet agree on names.
    ///   - time: The time within which nodes act: from 1 s to 1 h.
    /// - Throws: ``FleetError/Code/notConnected`` if there is no broker, or if it was lost before it showed the request;
    ///   ``FleetError/Code/notHeard`` if it has not shown it within 10 s: a broker drops in silence what its access list forbids
    ///   (MQTT 3.1.1 §3.3.5.2).
    public func trigger(_ name: FleetName, within time: Duration = .seconds(60)) async throws(FleetError) {
        try await ask(.trigger(name), .trigger(name, within: time), "the trigger \(name)", topic: .trigger(name))
    }

    /// The requests of operators, at the time at which this machine should act.
    ///
    /// ```swift
    /// for await trigger in member.triggers where trigger.name == retry {
    ///     bus.retryNow()
    /// }
    /// ```
    ///
    /// `RetryBus.retryNow` ends backoff delays, and the gates of the bus still apply. Each access makes a stream of its own, for
    /// one iteration, of the requests from now on. It finishes when ``run()`` ends.
    public var triggers: AsyncStream<FleetTrigger> {
        let listener = Subscription<FleetTrigger>(limit: configuration.bufferedChanges)
        let id = state.withLock { state -> UInt64? in
            guard state.phase != .ended else { return nil }
            let id = state.triggerListeners.add(listener, to: 0)
            _ = state.triggerListeners.admit { _ in true }
            return id
        }
        guard let id else {
            listener.finish()
            return listener.stream {}
        }
        return listener.stream { [weak self] in _ = self?.state.withLock { $0.triggerListeners.remove(id, from: 0) } }
    }

    /// Removes a node's word from the broker, and returns when the broker has shown that it is gone.
    ///
    /// For nodes that are gone for good; a node that is connected repeats its word. Cancelling the task takes nothing back.
    ///
    /// - Parameter name: The node.
    /// - Throws: ``FleetError/Code/notConnected`` if there is no broker, or if it was lost before it showed the end;
    ///   ``FleetError/Code/notHeard`` if it has not shown it within 10 s, as for ``trigger(_:within:)``.
    public func forget(_ name: FleetName) async throws(FleetError) {
        try await ask(.forget(name), .forget(name), "the end of \(name)", topic: .status(name))
    }

    private func ask(
        _ request: FleetCore.Request, _ event: FleetCore.Event, _ subject: String, topic: FleetTopic
    ) async throws(FleetError) {
        let outcome = await withCheckedContinuation { continuation in
            send(Item(event: event, request: Request(request: request, answer: { continuation.resume(returning: $0) })))
        }
        switch outcome {
        case .shown: break
        case .lost: throw FleetError(.notConnected, subject: subject)
        case .hidden:
            throw FleetError(
                .notHeard,
                subject: "the broker takes \(subject) and shows it to no one; next: let this client write "
                    + "\(topic.text(site: site)) in the broker's access list")
        }
    }
}

extension FleetMember.State {
    fileprivate mutating func release(_ key: FleetMember.ConditionKey) -> FleetMember.NodeCondition? {
        conditions[key]?.uses -= 1
        guard conditions[key]?.uses == 0 else { return nil }
        return conditions.removeValue(forKey: key)
    }
}

/// A condition's use of a node, which ends with the condition.
private final class ConditionShare: Sendable {
    private let giveBack: @Sendable () -> Void

    init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }

    deinit { giveBack() }
}
