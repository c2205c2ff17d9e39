import ReachabilityTesting
import ReachableRetry

/// An input of the core.
///
/// Every number is valid: a job number is taken modulo the number of jobs.
enum CoreStep: Sendable {
    case submit(variant: Int, scope: Int, extra: Int, destination: Int, priority: Int)
    case level(condition: Int, isSatisfied: Bool)
    case edge(condition: Int)
    case repeatLevel(condition: Int)
    /// The condition is lost and satisfied again, this many times at one moment.
    case flap(condition: Int, times: Int)
    /// The machine was suspended: time passes without timers, and the path may have changed.
    case suspend(milliseconds: Int)
    /// All levels are reported again, as after a resync.
    case resync
    /// The condition becomes steady.
    case calm(condition: Int)
    /// The condition is evaluated without a change.
    case evaluate(condition: Int)
    /// A lookup finds a scope unsatisfied before its condition changes.
    case lose(condition: Int)
    case finish(condition: Int)
    case know(condition: Int)
    /// The first verdict does not come: the jobs of the scope start.
    case giveUpFirstVerdict(condition: Int)
    /// Unused conditions are removed and added again.
    case removeUnusedConditions
    case succeed(job: Int)
    /// `isOvertaken` if the attempt ended before the interruption reached it.
    case fail(job: Int, report: Int, isGone: Bool, isOvertaken: Bool, delay: Int)
    case cancel(job: Int)
    /// A late result of a job that has ended.
    case lateResult(job: Int)
    case retryNow(condition: Int?)
    case pause(job: Int, isPaused: Bool)
    /// A job gets other conditions.
    case need(job: Int, extra: Int)
    case pass(milliseconds: Int)
    case passToNext
    case shutDown(drain: Int)
}

/// A policy in a form that the oracle can read.
struct Variant: Equatable, Sendable {
    enum Mode: Sendable {
        case wait
        case accelerate
        case ignore
    }

    var mode = Mode.wait
    var maxAttempts: Int? = 3
    var elapsed: Int?
    var waitLimit: Int?
    var timeout: Int?
    var grace: Int?
    /// True if the grace applies to the loss of source addresses.
    var heedsSource = false
    var rule = RetryPolicy.ReconnectRule.automatic
    var bypassesGate = false
    /// True if it uses the bus's budget, if there is one.
    var isBudgeted = false

    /// True if a release policy may delay it.
    var isGated: Bool { mode == .wait && !bypassesGate }

    func policy(budget: RetryBudget? = nil) -> RetryPolicy {
        let connectivity: RetryPolicy.Connectivity =
            switch mode {
            case .wait: .wait(upTo: waitLimit.map { .milliseconds($0) })
            case .accelerate: .accelerate
            case .ignore: .ignore
            }
        let policy = RetryPolicy(.constant(.seconds(1))).giveUpAfter(maxAttempts: maxAttempts)
            .giveUpAfter(elapsed: elapsed.map { .milliseconds($0) }).attemptTimeout(timeout.map { .milliseconds($0) })
            .connectivity(connectivity).interruptsAttempt(interruption).onReconnect(rule).budget(isBudgeted ? budget : nil)
        return bypassesGate ? policy.bypassesGate() : policy
    }

    private var interruption: RetryPolicy.InterruptionRule {
        guard let grace = grace.map({ Duration.milliseconds($0) }) else { return .never }
        return heedsSource ? .whenSourceIsLost(grace: grace) : .whenUnsatisfied(grace: grace)
    }

    static let all: [Variant] = [
        Variant(), Variant(), Variant(maxAttempts: nil), Variant(elapsed: 3000), Variant(waitLimit: 700), Variant(timeout: 400),
        Variant(grace: 0), Variant(grace: 300), Variant(mode: .accelerate), Variant(mode: .ignore), Variant(rule: .keepBackoff),
        Variant(rule: .resetBackoff), Variant(mode: .accelerate, elapsed: 2000, timeout: 500),
        Variant(maxAttempts: nil, elapsed: 5000, waitLimit: 1500, timeout: 800, grace: 100), Variant(mode: .ignore, elapsed: 1500),
        Variant(maxAttempts: 1), Variant(elapsed: 0), Variant(bypassesGate: true), Variant(maxAttempts: nil, isBudgeted: true),
        Variant(timeout: 900, isBudgeted: true), Variant(grace: 0, heedsSource: true), Variant(grace: 300, heedsSource: true),
        Variant(mode: .ignore, elapsed: 4000, timeout: 700, grace: 400, heedsSource: true),
    ]
}

extension CoreStep {
    static let reports: [FailureReport] = [
        .unclassified, .unclassified, .unreachable, .unanswered, .noNameServer, .refused, .noSourceAddress, .shortage, .timedOut,
        .classified(.transient), .classified(.network), .classified(.server), .classified(.server), .classified(.local),
        .classified(.overload()), .classified(.overload(retryAfter: .milliseconds(700))),
        .classified(.overload(retryAfter: .milliseconds(-5))), .classified(.request), .classified(.permanent),
        FailureReport(.unanswered, mayRetry: false), FailureReport(.classified(.server), mayRetry: false),
    ]

    static let delays = [0, 1, 100, 500, 1000, 60_000]
    static let spans = [0, 1, 10, 100, 400, 1000, 5000]

    /// Returns a random script.
    static func script(_ count: Int, using random: inout SeededGenerator) -> [CoreStep] {
        func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
        return (0..<count).map { _ in
            switch number(97) {
            case 0..<18:
                .submit(
                    variant: number(Variant.all.count), scope: number(2), extra: number(6), destination: number(3),
                    priority: number(3))
            case 18..<34: .level(condition: number(6), isSatisfied: Bool.random(using: &random))
            case 34..<37: .edge(condition: number(6))
            case 37: .repeatLevel(condition: number(6))
            case 38: .evaluate(condition: number(2))
            case 39: .removeUnusedConditions
            case 40: number(4) == 0 ? .finish(condition: number(6)) : .repeatLevel(condition: number(6))
            case 41..<44: number(8) == 0 ? .giveUpFirstVerdict(condition: number(2)) : .know(condition: number(2))
            case 44..<50: .succeed(job: number(100))
            case 50..<66: failure(using: &random)
            case 66..<68: .cancel(job: number(100))
            case 68: .lateResult(job: number(100))
            case 69..<72: .retryNow(condition: number(2) == 0 ? nil : number(2))
            case 72..<82: .passToNext
            case 82: .pause(job: number(100), isPaused: number(3) == 0)
            case 83: .need(job: number(100), extra: number(6))
            case 84: number(10) == 0 ? .shutDown(drain: number(2) * 500) : .passToNext
            case 85..<92: .pass(milliseconds: spans[number(spans.count)])
            case 92..<94: .flap(condition: number(6), times: 1 + number(7))
            case 94: .suspend(milliseconds: spans[number(spans.count)])
            case 95: number(2) == 0 ? .resync : .calm(condition: number(2))
            default: .lose(condition: number(2))
            }
        }
    }

    /// Returns a random script with many jobs of few destinations, so that gates reach all of their states.
    static func crowd(_ count: Int, using random: inout SeededGenerator) -> [CoreStep] {
        func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
        let isUp = number(3) == 0
        let up = CoreStep.level(condition: 1, isSatisfied: true)
        return (isUp ? [up] : [])
            + (0..<count).map { place -> CoreStep in
                switch number(96) {
                // Most jobs are submitted in the first third.
                case 0..<(place < count / 3 ? 70 : 25):
                    .submit(
                        variant: number(4) == 0 ? number(Variant.all.count) : number(3), scope: number(12) == 0 ? 0 : 1,
                        extra: number(3), destination: number(6) / 4, priority: number(3))
                case 70..<72: .level(condition: 1, isSatisfied: number(4) > 0)
                case 72: [.edge(condition: 1), .calm(condition: 1), .lose(condition: 1)][number(3)]
                case 73: .flap(condition: 1, times: 1 + number(7))
                case 74: number(3) == 0 ? .suspend(milliseconds: 5000) : .retryNow(condition: 1)
                case 75..<80: failure(using: &random)
                case 80..<86: .passToNext
                case 86..<88: .pass(milliseconds: spans[number(spans.count)])
                case 88: number(2) == 0 ? .pause(job: number(100), isPaused: number(3) == 0) : .cancel(job: number(100))
                case 89: up
                default: .succeed(job: number(100))
                }
            }
    }

    private static func failure(using random: inout SeededGenerator) -> CoreStep {
        func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
        return .fail(
            job: number(100), report: number(reports.count), isGone: number(8) == 0, isOvertaken: number(8) == 0,
            delay: delays[number(delays.count)])
    }
}
