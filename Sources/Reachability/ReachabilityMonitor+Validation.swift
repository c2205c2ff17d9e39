internal import Synchronization

extension ReachabilityMonitor {
    typealias ValidationRequest = AsyncStream<ValidationState.Answer>.Continuation

    /// Whether the internet is satisfied, and its far end validated: for jobs that a captive portal would only confuse.
    ///
    /// Its epoch grows when that becomes so. It is unsatisfied from a new epoch of the internet until its path is validated, and
    /// finished when the monitor has ended. Without ``Configuration/validator`` it is finished from the start and never satisfied:
    /// jobs that require it fail instead of waiting for ever. It keeps the monitor.
    public var validatedCondition: Condition {
        let storage = guarded.withLock { guarded -> ConditionStorage? in
            guard guarded.phase != .ended, let validation = guarded.core.validation else { return nil }
            if let storage = guarded.validatedCondition { return storage }
            let storage = ConditionStorage(validation.condition, isReachability: true, isKnown: validation.isKnown)
            guarded.validatedCondition = storage
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
        let isAdded = guarded.withLock { guarded in
            guard guarded.phase != .ended else { return false }
            guarded.core.validation?.request()
            let id = guarded.validationRequests.add(request, to: 0)
            // Set before the monitor can end and finish the stream.
            request.onTermination = { [weak self] _ in
                self?.guarded.withLock { _ = $0.validationRequests.remove(id, from: 0) }
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

    func perform(_ validation: MonitorCore.Outcome.Validation) {
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
        guarded.withLock { $0.validation = task }
    }

    func cancelValidation() { guarded.withLock { $0.validation.take() }?.cancel() }

    private func finishValidation(_ number: UInt64, _ finding: PathValidation) {
        guarded.withLock { $0.core.validation?.arrive(number, finding) }
        source.wake()
    }
}
