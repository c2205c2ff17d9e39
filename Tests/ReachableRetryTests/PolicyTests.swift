import Glibc
import Reachability
import Synchronization
import Testing

@testable import ReachableRetry

/// What a policy says about errors, and how its modifiers work.
struct PolicyTests {
    private enum Fault: Error {
        case a
        case b
        case c
    }

    private final class Asked: Sendable {
        let names = Mutex<[String]>([])
    }

    private func report(_ policy: RetryPolicy, _ error: any Error = Fault.a) -> FailureReport {
        policy.rules.classification.report(error)
    }

    @Test func withoutAnOpinionAnErrorIsUnclassified() {
        #expect(report(.default) == .unclassified)
    }

    @Test func predicatesAreAskedInTheirOrder() {
        let asked = Asked()
        @Sendable func note(_ name: String) { asked.names.withLock { $0.append(name) } }
        let policy = RetryPolicy.default
            .systemErrors { _ in
                note("systemErrors")
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
        #expect(asked.names.withLock(\.self) == ["giveUpOnErrors", "retryOnErrors", "classify", "systemErrors"])
    }

    @Test func theFirstOpinionCounts() {
        let policy = RetryPolicy.default.classify { _ in .transient }.giveUpOnErrors { $0 as? Fault == .a }
        #expect(report(policy, Fault.a) == .classified(.permanent))
        #expect(report(policy, Fault.b) == .classified(.transient))
        let twice = RetryPolicy.default.classify { $0 as? Fault == .a ? .connectivity : nil }.classify { _ in .permanent }
        #expect(report(twice, Fault.a) == .classified(.connectivity))
        #expect(report(twice, Fault.b) == .classified(.permanent))
    }

    @Test func predicatesAddUp() {
        let givesUp = RetryPolicy.default.giveUpOnErrors { $0 as? Fault == .a }.giveUpOnErrors { $0 as? Fault == .b }
        #expect(
            [Fault.a, .b, .c].map { report(givesUp, $0) } == [.classified(.permanent), .classified(.permanent), .unclassified])
        let retries = RetryPolicy.default.retryOnErrors { $0 as? Fault == .a }.retryOnErrors { $0 as? Fault == .b }
        #expect([Fault.a, .b, .c].map { report(retries, $0) } == [.unclassified, .unclassified, .classified(.permanent)])
    }

    @Test func attemptsThatTookTooLongNeedNoPermission() {
        let policy = RetryPolicy.default.retryOnErrors { $0 is Fault }
        #expect(report(policy, RetryError.attemptTimedOut) == .unclassified)
        let givesUp = policy.giveUpOnErrors { $0 as? RetryError == .attemptTimedOut }
        #expect(report(givesUp, RetryError.attemptTimedOut) == .classified(.permanent))
    }

    @Test func modifiersDoNotChangeWhatTheyAreCalledOn() {
        let policy = RetryPolicy.default
        _ = policy.giveUpAfter(maxAttempts: 1).giveUpAfter(elapsed: .seconds(1)).connectivity(.ignore).giveUpOnErrors { _ in true }
        #expect(policy.rules.maxAttempts == 10 && policy.rules.elapsed == nil && policy.rules.connectivity == .wait(upTo: nil))
        #expect(report(policy) == .unclassified)
    }

    @Test func limitsAreHeldWithinReason() {
        #expect(RetryPolicy.default.giveUpAfter(maxAttempts: 0).rules.maxAttempts == 1)
        #expect(RetryPolicy.default.giveUpAfter(maxAttempts: .min).rules.maxAttempts == 1)
        #expect(RetryPolicy.default.giveUpAfter(maxAttempts: nil).rules.maxAttempts == nil)
        #expect(RetryPolicy.default.giveUpAfter(elapsed: .seconds(-1)).rules.elapsed == .zero)
        #expect(RetryPolicy.default.attemptTimeout(.seconds(-1)).rules.attemptTimeout == .zero)
        #expect(RetryPolicy.default.interruptsAttemptWhenUnsatisfied(grace: .seconds(-1)).rules.interruptionGrace == .zero)
    }

    /// The numbers in the core are the C library's.
    @Test func theSystemsNumbersMeanWhatTheyDo() {
        let meanings: [(Int32, FailureReport)] = [
            (ENETUNREACH, .unreachable), (ENETDOWN, .unreachable), (EHOSTUNREACH, .unanswered), (EADDRNOTAVAIL, .unanswered),
            (ETIMEDOUT, .unanswered), (EAI_AGAIN, .unanswered), (ECONNREFUSED, .refused), (ECONNRESET, .unclassified),
            (EPIPE, .unclassified), (0, .unclassified), (EAI_NONAME, .unclassified), (.max, .unclassified), (.min, .unclassified),
        ]
        for (number, meaning) in meanings {
            #expect(FailureReport(systemError: number) == meaning, "\(number)")
            #expect(report(RetryPolicy.default.systemErrors { _ in number }) == meaning, "\(number)")
        }
        #expect(report(.default, ReachabilityError(.requestFailed, errno: ENETUNREACH, operation: "connect")) == .unreachable)
    }
}
