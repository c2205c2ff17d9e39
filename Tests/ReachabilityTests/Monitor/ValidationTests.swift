import Reachability
import ReachabilityTesting
import Testing

/// A monitor that was given a validator.
@Suite(.timeLimit(.minutes(10))) struct ValidationTests {
    /// Runs a monitor with a scripted validator.
    private func withValidator(
        online: Bool = true, _ change: (inout ReachabilityMonitor.Configuration) -> Void = { _ in },
        _ body: @Sendable (ReachabilityMonitor, SimulatedNetwork, ManualClock, ScriptedValidator) async throws -> Void
    ) async throws {
        let validator = ScriptedValidator()
        var configuration = ReachabilityMonitor.Configuration()
        configuration.validator = validator
        change(&configuration)
        try await withMonitor(configuration, online: online) { try await body($0, $1, $2, validator) }
    }

    @Test func validationIsATransitionWithoutAnEpoch() async throws {
        try await withValidator { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            var damped = try await Listener(monitor.transitions)
            #expect(raw.baseline.current.validation == nil && monitor.path.validation == nil)
            #expect(monitor.validatedCondition.state == .init())
            let call = try #require(await validator.nextCall())
            #expect(call.path == monitor.path)
            call.answer(.captivePortal("http://portal.example/"))
            let first = try await raw.next()
            #expect(first.kinds == .validationChanged && first.kinds.names == ["validationChanged"])
            #expect(first.sequence == 1 && first.epoch == 1 && first.previous?.validation == nil)
            #expect(first.current.validation == .captivePortal("http://portal.example/"))
            #expect(first.cause == Cause(.validation, "behind a captive portal: http://portal.example/"))
            #expect(try await damped.next().kinds == .validationChanged)
            #expect(monitor.path == first.current && monitor.path.isSatisfied)
            #expect(monitor.condition(for: .internet).state == .init(isSatisfied: true, epoch: 1))
            #expect(monitor.validatedCondition.state == .init())
            #expect(try await Listener(monitor.transitions).baseline.current.validation == first.current.validation)
        }
    }

    @Test func nextValidationFindsAnOpenedPortal() async throws {
        try await withValidator { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            await validator.nextCall()?.answer(.captivePortal(nil))
            #expect(try await raw.next().cause == Cause(.validation, "behind a captive portal"))
            clock.advance(by: .milliseconds(999))
            #expect(validator.callCount == 1)
            clock.advance(by: .milliseconds(1))
            let call = try #require(await validator.nextCall())
            #expect(call.path.validation == .captivePortal(nil))
            call.answer(.validated)
            let opened = try await raw.next()
            #expect(opened.kinds == .validationChanged && opened.current.validation == .validated && opened.at == .seconds(1))
            #expect(monitor.validatedCondition.state == .init(isSatisfied: true, epoch: 1))
            clock.advance(by: .seconds(86_400))
            #expect(validator.callCount == 2, "a validated path is not validated again")
            #expect(monitor.health.missedByEvents == 0)
        }
    }

    @Test func newPathCancelsTheValidation() async throws {
        try await withValidator { monitor, network, clock, validator in
            let condition = monitor.validatedCondition
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            let first = try #require(await validator.nextCall())
            try network.pull("eth0")
            first.answer(.captivePortal("http://portal.example/"))
            try network.plug("eth0")
            clock.advance(by: .seconds(1))
            await validator.nextCall()?.answer(.validated)
            #expect(try await raw.next().kinds == .offline)
            let online = try await raw.next()
            #expect(online.kinds == .online && online.current.validation == nil && online.epoch == 2)
            #expect(try await raw.next().current.validation == .validated)
            #expect(condition.state == .init(isSatisfied: true, epoch: 1))
            try network.pull("eth0")
            #expect(condition.state == .init(isSatisfied: false, epoch: 1) && monitor.path.validation == nil)
        }
    }

    @Test func replacedPathLosesItsValidation() async throws {
        try await withValidator { monitor, network, clock, validator in
            var damped = try await Listener(monitor.transitions)
            await validator.nextCall()?.answer(.validated)
            #expect(try await damped.next().kinds == .validationChanged)
            clock.advance(by: .milliseconds(250))
            try network.pull("eth0")
            try network.plug("eth0")
            let back = try await damped.next()
            #expect(back.kinds == [.reestablished, .validationChanged] && back.current.validation == nil)
            clock.advance(by: .seconds(1))
            await validator.nextCall()?.answer(.validated)
            #expect(try await damped.next().kinds == .validationChanged)
        }
    }

    @Test func flappingLinkIsValidatedOncePerSecond() async throws {
        try await withValidator { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            await validator.nextCall()?.answer(.validated)
            #expect(try await raw.next().kinds == .validationChanged)
            for _ in 1...9 {
                clock.advance(by: .milliseconds(100))
                try network.pull("eth0")
                try network.plug("eth0")
            }
            #expect(validator.callCount == 1 && monitor.path.isSatisfied)
            clock.advance(by: .milliseconds(100))
            #expect(await validator.nextCall()?.path == monitor.path)
        }
    }

    @Test func gatewayChangeKeepsTheValidationUntilTheNext() async throws {
        try await withValidator { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            var address = try await Listener(monitor.transitions(to: .address(ip("198.51.100.1")), raw: true))
            await validator.nextCall()?.answer(.validated)
            #expect(try await raw.next().kinds == .validationChanged)
            clock.advance(by: .seconds(1))
            try network.replaceRoute(to: "default", via: "192.0.2.2", dev: "eth0")
            let change = try await raw.next()
            #expect(change.kinds == .gatewayChanged && change.current.validation == .validated && monitor.path == change.current)
            let other = try await address.next()
            #expect(other.kinds == .gatewayChanged && other.current.validation == nil, "the new path has no validation")
            let call = try #require(await validator.nextCall())
            #expect(call.path == change.current && monitor.validatedCondition.state.isSatisfied)
            call.answer(.captivePortal("http://portal.example/"))
            #expect(try await raw.next().current.validation == .captivePortal("http://portal.example/"))
            #expect(monitor.validatedCondition.state == .init(isSatisfied: false, epoch: 1))
        }
    }

    @Test func slowValidationFails() async throws {
        try await withValidator {
            $0.validationTimeout = .seconds(3)
        } _: { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            _ = await validator.nextCall()
            clock.advance(by: .milliseconds(2999))
            #expect(monitor.path.validation == nil)
            clock.advance(by: .milliseconds(1))
            #expect(monitor.path.validation == .failed("no answer within 3.0 seconds"))
            #expect(try await raw.next().kinds == .validationChanged)
        }
    }

    @Test func validatorErrorIsAFailure() async throws {
        try await withValidator { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            await validator.nextCall()?.fail(ReachabilityError(.requestFailed, operation: "validating"))
            guard case .failed(let reason) = try await raw.next().current.validation else {
                Issue.record("it did not fail")
                return
            }
            #expect(reason.hasPrefix("validating failed; next: "))
        }
    }

    @Test func requestIsAnsweredAfterPublication() async throws {
        try await withValidator { monitor, network, clock, validator in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            await validator.nextCall()?.answer(.validated)
            #expect(try await raw.next().kinds == .validationChanged)
            let validating = Task { (try await monitor.validate(), monitor.path.validation) }
            await validator.nextCall()?.answer(.failed("gone"))
            let (answer, known) = try await validating.value
            #expect(answer == .failed("gone") && known == answer)
            #expect(try await raw.next().current.validation == answer && validator.callCount == 2)
            #expect(monitor.validatedCondition.state == .init(isSatisfied: false, epoch: 1))
        }
    }

    @Test func requestWithoutANetworkThrows() async throws {
        try await withValidator { monitor, network, clock, validator in
            _ = await validator.nextCall()
            let validating = Task { try await monitor.validate() }
            try network.pull("eth0")
            let lost = await #expect(throws: ReachabilityError.self) { try await validating.value }
            #expect(lost?.code == .unsatisfied)
            let offline = await #expect(throws: ReachabilityError.self) { try await monitor.validate() }
            #expect(offline?.code == .unsatisfied)
        }
    }

    @Test func requestCanBeCancelled() async throws {
        try await withValidator { monitor, network, clock, validator in
            _ = await validator.nextCall()
            let before = monitor.usage
            let validating = Task.immediate { try await monitor.validate() }
            #expect(monitor.usage > before)
            validating.cancel()
            await #expect(throws: CancellationError.self) { try await validating.value }
            #expect(monitor.usage == before && validator.callCount == 1)
        }
    }

    @Test func offlineMonitorDoesNotValidate() async throws {
        try await withValidator(online: false) { monitor, network, clock, validator in
            clock.advance(by: .seconds(86_400))
            #expect(validator.callCount == 0 && monitor.path.validation == nil)
            #expect(monitor.validatedCondition.state == .init())
        }
    }

    @Test func requestWithoutAValidatorThrows() async throws {
        try await withMonitor { monitor, network, clock in
            #expect(monitor.path.isSatisfied && monitor.path.validation == nil)
            #expect(monitor.validatedCondition.state == .init(isFinished: true))
            let error = await #expect(throws: ReachabilityError.self) { try await monitor.validate() }
            #expect(error?.code == .noValidator)
        }
    }

    /// Without a validator there is no state, wake-up or effect.
    @Test func coreWithoutAValidatorHasNoValidation() {
        var core = MonitorCore(ReachabilityMonitor.Configuration())
        let evaluation = core.conclude(core.begin(NetworkEventBatch(now: .zero, wallTime: .zero)))
        #expect(evaluation.validation == nil && core.validation == nil)
    }

    /// A validator that reports the end of its call, and its cancellation.
    private struct WatchedValidator: PathValidator {
        let scripted = ScriptedValidator()
        let ended = AsyncStream.makeStream(of: Bool.self)

        func validate(_ path: NetworkPath) async throws -> PathValidation {
            defer { ended.continuation.yield(Task.isCancelled) }
            return try await scripted.validate(path)
        }
    }

    @Test func endCancelsTheValidationAndItsRequests() async throws {
        let watched = WatchedValidator()
        let validator = watched.scripted
        var configuration = ReachabilityMonitor.Configuration()
        configuration.validator = watched
        let monitor = ReachabilityMonitor(SimulatedNetwork.online(clock: ManualClock()), configuration: configuration)
        let running = Task { try await monitor.run() }
        let condition = monitor.validatedCondition
        _ = await validator.nextCall()
        let validating = Task { try await monitor.validate() }
        running.cancel()
        try await running.value
        let error = await #expect(throws: ReachabilityError.self) { try await validating.value }
        #expect(error?.code == .ended)
        for await isCancelled in watched.ended.stream {
            #expect(isCancelled)
            break
        }
        #expect(condition.state.isFinished && monitor.validatedCondition.state.isFinished && validator.callCount == 1)
        await #expect(throws: ReachabilityError.self) { try await monitor.validate() }
    }
}
