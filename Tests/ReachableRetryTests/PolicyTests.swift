import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableRetry

/// The classification of errors by a policy, and its modifiers.
struct PolicyTests {
    private enum Fault: Error {
        case a
        case b
        case c
    }

    private func report(_ policy: RetryPolicy, _ error: any Error = Fault.a) -> FailureReport {
        policy.rules.classification.report(error)
    }

    @Test func undecidedErrorIsUnclassified() {
        #expect(report(.default) == .unclassified)
    }

    @Test func predicatesAreCalledInOrder() {
        let asked = Recorder<String>()
        @Sendable func note(_ name: String) { asked.record(name) }
        let policy = RetryPolicy.default
            .errno { _ in
                note("errno")
                return nil
            }
            .classify { _ in
                note("classify")
                return nil
            }
            .retryOnErrors { _ in
                note("retryOnErrors")
                return true
            }
            .giveUpOnErrors { _ in
                note("giveUpOnErrors")
                return false
            }
        #expect(report(policy) == .unclassified)
        #expect(asked.value == ["giveUpOnErrors", "retryOnErrors", "classify", "errno"])
    }

    @Test func firstClassificationCounts() {
        let policy = RetryPolicy.default.classify { _ in .transient }.giveUpOnErrors { $0 as? Fault == .a }
        #expect(report(policy, Fault.a) == .classified(.permanent), "it ends the job, and the fault stays known")
        #expect(report(policy, Fault.b) == .classified(.transient))
        let twice = RetryPolicy.default.classify { $0 as? Fault == .a ? .network : nil }.classify { _ in .permanent }
        #expect(report(twice, Fault.a) == .classified(.network))
        #expect(report(twice, Fault.b) == .classified(.permanent))
    }

    @Test func predicatesAddUp() {
        let givesUp = RetryPolicy.default.giveUpOnErrors { $0 as? Fault == .a }.giveUpOnErrors { $0 as? Fault == .b }
        #expect(
            [Fault.a, .b, .c].map { report(givesUp, $0) } == [.final, .final, .unclassified])
        let retries = RetryPolicy.default.retryOnErrors { $0 as? Fault == .a }.retryOnErrors { $0 as? Fault == .b }
        #expect([Fault.a, .b, .c].map { report(retries, $0) } == [.unclassified, .unclassified, .final])
    }

    @Test func timeoutsNeedNoRetryRule() {
        let policy = RetryPolicy.default.retryOnErrors { $0 is Fault }
        func cut(_ policy: RetryPolicy, _ cut: RetryError) -> FailureReport {
            policy.rules.classification.report(CancellationError(), cut: cut)
        }
        #expect(cut(policy, .attemptTimedOut) == .unclassified)
        let givesUp = policy.giveUpOnErrors { $0 as? RetryError == .attemptTimedOut }
        #expect(cut(givesUp, .attemptTimedOut) == .final)
        #expect(cut(policy, .attemptInterrupted) == .unclassified)
        #expect(report(policy, RetryError.attemptTimedOut) == .final, "the timeout of a job within the operation")
    }

    /// Each error matches an earlier predicate; later ones would decide differently.
    @Test func firstClassifierDecides() {
        let system = RetryPolicy.default.errno { _ in nil }.errno { _ in ECONNREFUSED }.errno { _ in ENETDOWN }
        let kernels = ReachabilityError(.requestFailed, errno: EHOSTUNREACH, operation: "connect")
        #expect(report(system, kernels) == .refused)
        let classified = system.classify { _ in nil }.classify { _ in .overload(retryAfter: .seconds(3)) }
        #expect(report(classified) == .classified(.overload(retryAfter: .seconds(3))))
        #expect(report(classified.retryOnErrors { $0 as? Fault == .a }) == .classified(.overload(retryAfter: .seconds(3))))
        let overloaded = FailureReport(.classified(.overload(retryAfter: .seconds(3))), mayRetry: false)
        #expect(report(classified.retryOnErrors { $0 as? Fault == .b }) == overloaded)
        #expect(report(classified.retryOnErrors { _ in true }.giveUpOnErrors { _ in true }) == overloaded)
    }

    @Test func answerOfACutAttemptCounts() {
        let policy = RetryPolicy.default.classify { error in
            if let fault = error as? Fault { return fault == .a ? .server : .network }
            return error as? RetryError == .attemptInterrupted ? .permanent : nil
        }
        let classification = policy.rules.classification
        #expect(classification.report(Fault.a, cut: .attemptInterrupted) == .classified(.server))
        let final = FailureReport(.classified(.unknown), mayRetry: false)
        #expect(classification.report(Fault.b, cut: .attemptInterrupted) == final)
        #expect(classification.report(CancellationError(), cut: .attemptInterrupted) == final)
        #expect(classification.report(Fault.b, cut: .attemptTimedOut) == .unclassified)
    }

    @Test func handlersOfGivingUpAddUp() {
        let calls = Recorder<String>()
        let policy = RetryPolicy.default
            .onGiveUp { giveUp in calls.record("first \(giveUp.charged)") }
            .onGiveUp { giveUp in calls.record("second \(giveUp.charged)") }
        let report = GiveUp(
            job: "sync", reason: .attempts, attempts: 3, charged: 2, networkFailures: 1, waited: .zero, elapsed: .seconds(1),
            lastError: nil)
        for handler in policy.rules.giveUpHandlers { handler(report) }
        #expect(calls.value == ["first 2", "second 2"])
    }

    /// Returns a policy's rules by name; functions are counted.
    private func rules(_ policy: RetryPolicy) -> [String: String] {
        let parts = [Mirror(reflecting: policy.rules), Mirror(reflecting: policy.rules.classification)].flatMap(\.children)
        let named = parts.map { ($0.label ?? "", "\($0.value)") }.filter { $0.0 != "classification" }
        return Dictionary(named) { first, _ in first }
    }

    private let modifiers: [String: @Sendable (RetryPolicy) -> RetryPolicy] = [
        "backoff": { $0.backoff(.constant(.seconds(1))) },
        "maxAttempts": { $0.giveUpAfter(maxAttempts: 7) },
        "elapsed": { $0.giveUpAfter(elapsed: .seconds(60)) },
        "attemptTimeout": { $0.attemptTimeout(.seconds(5)) },
        "connectivity": { $0.connectivity(.accelerate) },
        "interruption": { $0.interruptsAttempt(.whenUnsatisfied(grace: .seconds(2))) },
        "budget": { $0.budget(.standard()) },
        "reconnect": { $0.onReconnect(.keepBackoff) },
        "bypassesGate": { $0.bypassesGate() },
        "maxConcurrentPerDestination": { $0.maxConcurrentPerDestination(3) },
        "giveUp": { $0.giveUpOnErrors { _ in false } },
        "retry": { $0.retryOnErrors { _ in true } },
        "classifiers": { $0.classify { _ in nil } },
        "errnoReaders": { $0.errno { _ in nil } },
        "giveUpHandlers": { $0.onGiveUp { _ in } },
        "throwsReport": { $0.throwsReport() },
    ]

    @Test func modifiersReturnAChangedCopy() {
        #expect(Set(rules(.default).keys) == Set(modifiers.keys), "every rule has a modifier here")
        let original = rules(.default)
        // Once with all other rules as they are by default, and once with all of them set.
        let rich = modifiers.values.reduce(RetryPolicy.default) { $1($0) }
        for (rule, modifier) in modifiers {
            #expect(changes(original, rules(modifier(.default))) == [rule])
            let others = modifiers.filter { $0.key != rule }.values.reduce(RetryPolicy.default) { $1($0) }
            #expect(changes(rules(others), rules(modifier(others))) == [rule])
            #expect(rules(modifier(others)) == rules(rich))
        }
        #expect(rules(.default) == original)
    }

    private func changes(_ before: [String: String], _ after: [String: String]) -> Set<String> {
        Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }
    }

    @Test func defaultPolicyDoublesHalfASecondUpToThirty() {
        let rules = RetryPolicy.default.rules
        var (least, half) = (ConstantGenerator.least, ConstantGenerator.half)
        #expect((1...8).map { rules.backoff.delay(afterFailure: $0, using: &least) }.allSatisfy { $0 == .zero })
        #expect(
            (1...8).map { rules.backoff.delay(afterFailure: $0, using: &half) }
                == [0.25, 0.5, 1, 2, 4, 8, 15, 15].map { .seconds($0) })
        #expect(rules.maxAttempts == 10 && rules.connectivity == .wait(upTo: nil) && rules.reconnect == .automatic)
        #expect(rules.elapsed == nil && rules.attemptTimeout == nil && rules.interruption == nil)
    }

    @Test func limitsAreClamped() {
        #expect(RetryPolicy.default.giveUpAfter(maxAttempts: 0).rules.maxAttempts == 1)
        #expect(RetryPolicy.default.giveUpAfter(maxAttempts: .min).rules.maxAttempts == 1)
        #expect(RetryPolicy.default.giveUpAfter(maxAttempts: nil).rules.maxAttempts == nil)
        #expect(RetryPolicy.default.giveUpAfter(elapsed: .seconds(-1)).rules.elapsed == .zero)
        #expect(RetryPolicy.default.attemptTimeout(.seconds(-1)).rules.attemptTimeout == .zero)
        #expect(RetryPolicy.default.interruptsAttempt(.whenUnsatisfied(grace: .seconds(-1))).rules.interruption?.grace == .zero)
    }

    @Test func systemErrorNumbersAreClassified() {
        #expect(report(RetryPolicy.default.errno { _ in ENETUNREACH }) == .unreachable)
        #expect(report(RetryPolicy.default.errno { _ in EAI_AGAIN }) == .noNameServer)
        #expect(report(RetryPolicy.default.errno { _ in EPIPE }) == .unclassified)
        #expect(report(.default, ReachabilityError(.requestFailed, errno: ENETUNREACH, operation: "connect")) == .unreachable)
        #expect(report(.default, ReachabilityError(.ended, operation: "wait")) == .unclassified, "no number, no opinion")
    }
}
