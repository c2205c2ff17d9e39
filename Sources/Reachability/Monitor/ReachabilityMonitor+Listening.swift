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
        let id = state.withLock { state -> UInt64? in
            guard state.phase != .ended else { return nil }
            state.core.retain(scope)
            return state.broadcast.add(listener, to: key)
        }
        guard let id else {
            // After the end: an unknown path, and nothing more.
            if let last = state.withLock({ $0.core.baseline(key, now: $0.now, wallTime: $0.wallTime) }) { listener.yield(last) }
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
        let isAdded = state.withLock { state in
            guard state.phase != .ended else { return false }
            let id = state.healthListeners.add(continuation, to: 0)
            // Set before the monitor can end and finish the stream.
            continuation.onTermination = { [weak self] _ in
                self?.state.withLock { _ = $0.healthListeners.remove(id, from: 0) }
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
        let storage = state.withLock { state -> ConditionStorage? in
            guard state.phase != .ended else { return nil }
            state.core.retain(scope)
            if let storage = state.conditions[scope] { return storage }
            let storage = ConditionStorage(
                state.core.condition(scope), isReachability: true, isKnown: state.core.path(scope) != nil,
                isUnsteady: state.core.isUnsteady(scope))
            state.conditions[scope] = storage
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
        state.withLock { state in
            state.broadcast.count + state.healthListeners.count + state.validationRequests.count
                + state.heldAddresses.count + state.core.scopes.reduce(0) { $0 + $1.value.uses - ($1.key == .internet ? 1 : 0) }
        }
    }

    fileprivate func release(_ scope: Scope) {
        // Released outside the lock.
        _ = state.withLock { state -> ConditionStorage? in
            state.core.release(scope) ? state.conditions.removeValue(forKey: scope) : nil
        }
    }

    private func unsubscribe(_ id: UInt64, from key: StreamKey) {
        let wasThere = state.withLock { $0.broadcast.remove(id, from: key) }
        if wasThere { release(key.scope) }
    }
}

/// A condition's share in what the monitor watches for it, which ends with the condition.
final class WatchShare: Sendable {
    private let giveBack: @Sendable () -> Void

    init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }

    deinit { giveBack() }
}

/// Which addresses connections were made from, and whether this machine still has them.
extension ReachabilityMonitor {
    /// The condition of an address.
    struct HeldAddress {
        var storage: ConditionStorage
        var state: Condition.State
        var isKnown: Bool
        var uses = 1
    }

    /// The source addresses of a watched scope as of its last evaluation, one for each family that is satisfied.
    ///
    /// A read of memory; empty for a scope that is not watched or not evaluated yet.
    package func sources(to scope: Scope) -> [IPAddress] {
        guard let path = state.withLock({ $0.core.path(scope) }) else { return [] }
        return IPAddress.Family.allCases.filter(path.supports).compactMap(path.source)
    }

    /// A condition that is satisfied while an interface has the address: connections from it may live.
    ///
    /// Renewing a lease or plugging in another cable changes nothing. It is finished when the monitor has ended. The address is
    /// watched as long as the condition or one of its streams is kept.
    package func condition(holding address: IPAddress) -> Condition {
        let storage = state.withLock { $0.retain(address) }
        guard let storage else {
            let finished = Condition.State(isFinished: true)
            return Condition("\(address)", ConditionStorage(finished, isReachability: true, isKnown: false))
        }
        return Condition("\(address)", storage, lifetime: WatchShare { self.release(address) })
    }

    fileprivate func release(_ address: IPAddress) {
        // Released outside the lock.
        _ = state.withLock { $0.release(address) }
    }
}

extension ReachabilityMonitor.State {
    fileprivate mutating func retain(_ address: IPAddress) -> ConditionStorage? {
        guard phase != .ended else { return nil }
        if let holding = heldAddresses[address] {
            heldAddresses[address]?.uses += 1
            return holding.storage
        }
        let isHeld = core.table.holds(address)
        let state = Condition.State(isSatisfied: isHeld, epoch: isHeld ? 1 : 0)
        let storage = ConditionStorage(state, isReachability: true, isKnown: core.hasSnapshot)
        heldAddresses[address] = ReachabilityMonitor.HeldAddress(storage: storage, state: state, isKnown: core.hasSnapshot)
        core.held.insert(address)
        return storage
    }

    fileprivate mutating func release(_ address: IPAddress) -> ConditionStorage? {
        heldAddresses[address]?.uses -= 1
        guard heldAddresses[address]?.uses == 0 else { return nil }
        core.held.remove(address)
        return heldAddresses.removeValue(forKey: address)?.storage
    }

    /// The conditions of addresses that came or went.
    mutating func heldAddressChanges() -> [ConditionChange] {
        // A table that is about to be read again may lack an address that the interface has twice.
        guard !heldAddresses.isEmpty, core.holdsTrueTable else { return [] }
        var changes: [ConditionChange] = []
        for (address, holding) in heldAddresses {
            let isHeld = core.table.holds(address)
            guard isHeld != holding.state.isSatisfied || !holding.isKnown else { continue }
            var state = holding.state
            if isHeld && !state.isSatisfied { state.epoch &+= 1 }
            state.isSatisfied = isHeld
            heldAddresses[address]?.state = state
            heldAddresses[address]?.isKnown = true
            changes.append(ConditionChange(storage: holding.storage, state: state))
        }
        return changes
    }
}

extension ReachabilityMonitor {
    typealias ValidationRequest = AsyncStream<ValidationState.Answer>.Continuation

    /// Whether the internet is satisfied, and its far end validated: for jobs that a captive portal would only confuse.
    ///
    /// Its epoch grows when that becomes so. It is unsatisfied from a new epoch of the internet until its path is validated, and
    /// finished when the monitor has ended. Without ``Configuration/validator`` it is finished from the start and never satisfied:
    /// jobs that require it fail instead of waiting for ever. It keeps the monitor.
    public var validatedCondition: Condition {
        let storage = state.withLock { state -> ConditionStorage? in
            guard state.phase != .ended, let validation = state.core.validation else { return nil }
            if let storage = state.validatedCondition { return storage }
            let storage = ConditionStorage(validation.condition, isReachability: true, isKnown: validation.isKnown)
            state.validatedCondition = storage
            return storage
        }
        let finished = Condition.State(isFinished: true)
        return Condition(
            "validated internet",
            storage ?? ConditionStorage(finished, isReachability: configuration.validator != nil, isKnown: false), lifetime: self)
    }

    /// Has the far end of the path to the internet validated now, and returns what was found.
    ///
    /// A validation that already runs over the same path answers, too. If the path changes meanwhile, the answer is that about the
    /// new one. Before ``run()`` and before the first snapshot it waits. What was found is published as usual before this returns.
    ///
    /// - Returns: what the validator found; ``PathValidation/failed(_:)`` if it threw or took longer than
    ///   ``Configuration/validationTimeout``.
    /// - Throws: ``ReachabilityError`` if there is no validator, if the internet is or becomes unsatisfied, or if the monitor ends;
    ///   `CancellationError` when the task is cancelled. The validation itself goes on then: others may wait for it.
    public func validate() async throws -> PathValidation {
        let operation = "ReachabilityMonitor.validate()"
        guard configuration.validator != nil else { throw ReachabilityError(.noValidator, operation: operation) }
        try Task.checkCancellation()
        let (answers, request) = AsyncStream.makeStream(of: ValidationState.Answer.self)
        let isAdded = state.withLock { state in
            guard state.phase != .ended else { return false }
            state.core.validation?.request()
            let id = state.validationRequests.add(request, to: 0)
            // Set before the monitor can end and finish the stream.
            request.onTermination = { [weak self] _ in
                self?.state.withLock { _ = $0.validationRequests.remove(id, from: 0) }
            }
            return true
        }
        guard isAdded else { throw ReachabilityError(.ended, operation: operation) }
        source.wake()
        for await answer in answers {
            switch answer {
            case .found(let finding): return finding
            case .unsatisfied: throw ReachabilityError(.unsatisfied, operation: operation)
            }
        }
        try Task.checkCancellation()
        throw ReachabilityError(.ended, operation: operation)
    }

    // MARK: - The source's thread

    func perform(_ validation: Evaluation.Validation) {
        if validation.step?.cancels == true { cancelValidation() }
        if let number = validation.step?.start { startValidation(number, of: validation.path) }
    }

    /// Starts a validation, which tells its end to the source's thread.
    private func startValidation(_ number: UInt64, of path: NetworkPath) {
        guard let validator = configuration.validator else { return }
        // Others' code may hold it up for as long as it likes: it does not keep the monitor.
        let task = Task.detached { [weak self] in
            let finding: PathValidation
            do {
                finding = try await validator.validate(path)
            } catch {
                finding = .failed("\(error)")
            }
            self?.finishValidation(number, finding)
        }
        state.withLock { $0.validation = task }
    }

    func cancelValidation() { state.withLock { $0.validation.take() }?.cancel() }

    private func finishValidation(_ number: UInt64, _ finding: PathValidation) {
        state.withLock { $0.core.validation?.arrive(number, finding) }
        source.wake()
    }
}
