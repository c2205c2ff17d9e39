internal import Synchronization

extension ReachabilityMonitor {
    /// The damped transitions of the internet: ``transitions(to:raw:)`` with the defaults.
    public var transitions: AsyncStream<Transition> { transitions(to: .internet) }

    /// Returns a stream of a scope's present path and each change of it.
    ///
    /// A damped stream publishes a path that became satisfied at once, a loss once it has lasted for ``Configuration/lossGrace``,
    /// and any other change 250 ms after the last transition at the earliest, with the state at that time. ``Transition/losses``
    /// counts the losses that a transition stands for.
    ///
    /// The first element is the baseline (``Transition/previous`` is `nil`); it waits for the monitor's first snapshot. Each call
    /// makes a stream of its own, for one iteration. A slow listener loses the oldest elements beyond
    /// ``Configuration/bufferedTransitions``, sees the gap in ``Transition/sequence``, and never delays others. When the monitor
    /// ends the stream has a transition to an unknown path and finishes. Ending the iteration or cancelling its task ends the
    /// subscription.
    ///
    /// - Parameters:
    ///   - scope: the destination.
    ///   - raw: true to publish every change at once.
    public func transitions(to scope: Scope, raw: Bool = false) -> AsyncStream<Transition> {
        let listener = Listener(limit: configuration.bufferedTransitions)
        let key = StreamKey(scope: scope, isRaw: raw)
        let id = state.withLock { state -> UInt64? in
            guard state.phase != .ended else { return nil }
            state.core.retain(scope)
            return state.broadcast.add(listener, to: key)
        }
        guard let id else {
            // After the end the stream has only an unknown path.
            if let last = state.withLock({ $0.core.baseline(key, now: $0.now, wallTime: $0.wallTime) }) { listener.yield(last) }
            listener.finish()
            return listener.stream {}
        }
        source.wake()
        return listener.stream { [weak self] in self?.unsubscribe(id, from: key) }
    }

    /// The present ``health`` and each change of it; a slow listener sees the latest.
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

    /// Returns a scope's reachability as a condition: raw, so that no job starts on a path that is known to be down.
    ///
    /// It is unsatisfied with epoch 0 before the scope's first evaluation, and finished after the monitor's end. The condition and
    /// its streams keep the scope watched.
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

    /// Waits until a scope is satisfied.
    ///
    /// - Throws: `CancellationError` if the task is cancelled, ``ReachabilityError`` if the monitor ends first.
    public func waitUntilSatisfied(_ scope: Scope = .internet) async throws {
        let condition = condition(for: scope)
        // The condition keeps the scope watched.
        defer { withExtendedLifetime(condition) {} }
        guard let state = await condition.storage.satisfiedOrFinished() else { throw CancellationError() }
        if !state.isSatisfied { throw ReachabilityError(.ended, operation: "waiting for \(scope)") }
    }

    /// Returns the paths to watched scopes as of one moment, that of their last evaluation; unknown for any other scope.
    ///
    /// A read of memory. Conditions and streams hear of a moment one after the other, so they cannot tell what was true at once.
    package func lastPaths(to scopes: [Scope]) -> [NetworkPath] {
        state.withLock { state in scopes.map { state.core.path($0) ?? .unknown } }
    }

    /// The number of streams, conditions and listeners, for tests of leaks; without the monitor's own watch of the internet.
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

/// A condition's use of a scope or address, which ends with the condition.
final class WatchShare: Sendable {
    private let giveBack: @Sendable () -> Void

    init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }

    deinit { giveBack() }
}

/// The source addresses of connections, and their presence on this machine.
extension ReachabilityMonitor {
    /// The condition of one address.
    struct HeldAddress {
        var storage: ConditionStorage
        var state: Condition.State
        var isKnown: Bool
        var uses = 1
    }

    /// Returns the source addresses of a watched scope as of its last evaluation, one for each satisfied family.
    ///
    /// A read of memory; empty for a scope that is not watched or not evaluated yet.
    package func sources(to scope: Scope) -> [IPAddress] {
        guard let path = state.withLock({ $0.core.path(scope) }) else { return [] }
        return IPAddress.Family.allCases.filter(path.supports).compactMap(path.source)
    }

    /// Returns a condition that is satisfied while an interface has the address, so that connections from it may live.
    ///
    /// Renewing a lease or plugging in another cable changes nothing. The condition is finished after the monitor's end. The
    /// condition and its streams keep the address watched.
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
        if let held = heldAddresses[address] {
            heldAddresses[address]?.uses += 1
            return held.storage
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

    /// Returns the changes of addresses that appeared or disappeared.
    mutating func heldAddressChanges() -> [ConditionChange] {
        // Before its next dump the table may lack an address that the interface has twice.
        guard !heldAddresses.isEmpty, core.holdsTrueTable else { return [] }
        var changes: [ConditionChange] = []
        for (address, held) in heldAddresses {
            let isHeld = core.table.holds(address)
            guard isHeld != held.state.isSatisfied || !held.isKnown else { continue }
            var state = held.state
            if isHeld && !state.isSatisfied { state.epoch &+= 1 }
            state.isSatisfied = isHeld
            heldAddresses[address]?.state = state
            heldAddresses[address]?.isKnown = true
            changes.append(ConditionChange(storage: held.storage, state: state))
        }
        return changes
    }
}

extension ReachabilityMonitor {
    typealias ValidationRequest = AsyncStream<ValidationState.Answer>.Continuation

    /// The condition of a validated internet, for jobs that a captive portal would confuse.
    ///
    /// It is satisfied while the internet is satisfied and its far end is validated.
    /// Its epoch grows with each such moment. It is unsatisfied from a new epoch of the internet until the path is validated, and
    /// finished after the monitor's end. Without ``Configuration/validator`` it is finished from the start and never satisfied:
    /// jobs that require it fail instead of waiting forever. It keeps the monitor.
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

    /// Validates the far end of the path to the internet now.
    ///
    /// A validation of the same path that already runs answers, too. If the path changes meanwhile, the new path is validated. The
    /// call waits for ``run()`` and the first snapshot. The result is published before the call returns.
    ///
    /// - Returns: the validator's result; ``PathValidation/failed(_:)`` if it threw or took longer than
    ///   ``Configuration/validationTimeout``.
    /// - Throws: ``ReachabilityError`` if there is no validator, if the internet is or becomes unsatisfied, or if the monitor ends;
    ///   `CancellationError` if the task is cancelled. The validation continues then: other callers may wait for it.
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

    /// Starts a validation; its end wakes the source's thread.
    private func startValidation(_ number: UInt64, of path: NetworkPath) {
        guard let validator = configuration.validator else { return }
        // Foreign code may never return: the task does not keep the monitor.
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
