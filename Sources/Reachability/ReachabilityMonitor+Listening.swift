internal import Synchronization

extension ReachabilityMonitor {
    /// The transitions of the internet, losses damped: ``transitions(to:raw:)`` with the defaults.
    public var transitions: AsyncStream<Transition> { transitions(to: .internet) }

    /// What a scope's reachability is now, and each change.
    ///
    /// The first element is the baseline (``Transition/previous`` is `nil`), with the monitor's first snapshot if it has none
    /// yet. Each call makes a stream of its own, for one iteration. A listener that is slow loses the oldest elements beyond
    /// ``Configuration/bufferedTransitions`` and sees that by ``Transition/sequence``; it never holds up others. The stream
    /// finishes when the monitor ends, after a transition to an unknown path. Ending the iteration or cancelling its task ends
    /// the subscription.
    ///
    /// - Parameters:
    ///   - scope: what is to be reached.
    ///   - raw: whether to tell each loss at once instead of holding it back for ``Configuration/lossGrace``.
    public func transitions(to scope: Scope, raw: Bool = false) -> AsyncStream<Transition> {
        let listener = Listener(limit: configuration.bufferedTransitions)
        let key = StreamKey(scope: scope, isRaw: raw)
        let id = guarded.withLock { guarded -> UInt64? in
            guard guarded.phase != .ended else { return nil }
            guarded.core.retain(scope)
            return guarded.broadcast.add(listener, to: key)
        }
        guard let id else {
            // After the end: an unknown path, and nothing more.
            if let last = guarded.withLock({ $0.core.baseline(key, now: $0.now, wallTime: $0.wallTime) }) { listener.yield(last) }
            listener.finish()
            return listener.stream {}
        }
        source.wake()
        return listener.stream { [weak self] in self?.unsubscribe(id, from: key) }
    }

    /// What the monitor went through, and each change of it.
    ///
    /// A slow listener sees the latest.
    public var healthUpdates: AsyncStream<MonitorHealth> {
        let (stream, continuation) = AsyncStream.makeStream(of: MonitorHealth.self, bufferingPolicy: .bufferingNewest(1))
        let isAdded = guarded.withLock { guarded in
            guard guarded.phase != .ended else { return false }
            let id = guarded.healthListeners.add(continuation, to: 0)
            // Set before the monitor can end and finish the stream.
            continuation.onTermination = { [weak self] _ in
                self?.guarded.withLock { _ = $0.healthListeners.remove(id, from: 0) }
            }
            return true
        }
        if isAdded {
            source.wake()
        } else {
            continuation.yield(health)
            continuation.finish()
        }
        return stream
    }

    /// A scope's reachability as a condition: raw, so that nobody starts on a path that is known to be down.
    ///
    /// It is unsatisfied with epoch 0 before the scope's first evaluation, and finished when the monitor has ended. The scope is
    /// watched as long as the condition or one of its streams is kept.
    public func condition(for scope: Scope) -> Condition {
        let storage = guarded.withLock { guarded -> ConditionStorage? in
            guard guarded.phase != .ended else { return nil }
            guarded.core.retain(scope)
            if let storage = guarded.conditions[scope] { return storage }
            let storage = ConditionStorage(
                guarded.core.condition(scope), isReachability: true, isKnown: guarded.core.path(scope) != nil,
                isUnsteady: guarded.core.isUnsteady(scope))
            guarded.conditions[scope] = storage
            return storage
        }
        guard let storage else {
            return Condition("\(scope)", ConditionStorage(Condition.State(isFinished: true), isReachability: true, isKnown: false))
        }
        source.wake()
        return Condition("\(scope)", storage, lifetime: WatchShare { self.release(scope) })
    }

    /// Returns as soon as a scope is satisfied: at once if it is already.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, ``ReachabilityError`` when the monitor ends before that.
    public func waitUntilSatisfied(_ scope: Scope = .internet) async throws {
        let condition = condition(for: scope)
        // The scope is watched as long as the condition is kept.
        defer { withExtendedLifetime(condition) {} }
        guard let state = await condition.storage.satisfiedOrFinished() else { throw CancellationError() }
        if !state.isSatisfied { throw ReachabilityError(.ended, operation: "waiting for \(scope)") }
    }

    /// How many streams, conditions and listeners are kept, for tests that look for leaks; the internet's own watch does not count.
    package var usage: Int {
        guarded.withLock { guarded in
            guarded.broadcast.count + guarded.healthListeners.count + guarded.validationRequests.count
                + guarded.holdings.count + guarded.core.scopes.reduce(0) { $0 + $1.value.uses - ($1.key == .internet ? 1 : 0) }
        }
    }

    fileprivate func release(_ scope: Scope) {
        // Released outside the lock.
        _ = guarded.withLock { guarded -> ConditionStorage? in
            guarded.core.release(scope) ? guarded.conditions.removeValue(forKey: scope) : nil
        }
    }

    private func unsubscribe(_ id: UInt64, from key: StreamKey) {
        let wasThere = guarded.withLock { $0.broadcast.remove(id, from: key) }
        if wasThere { release(key.scope) }
    }
}

/// A condition's share in what the monitor watches for it, which ends with the condition.
final class WatchShare: Sendable {
    private let giveBack: @Sendable () -> Void

    init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }

    deinit { giveBack() }
}
