import Reachability
import Testing

/// The times of name lookups, and the effects of their answers.
struct HostCacheTests {
    private let name = "nas.example"
    private let answer = HostAnswer.addresses([ip("192.0.2.9")])

    /// A cache that expectations may change.
    private final class Bench {
        var cache: HostCache

        init(refresh: Duration? = .seconds(60), isAnswered: Bool = true) {
            cache = HostCache(refreshInterval: refresh, isAnswered: isAnswered)
            cache.keep(["nas.example"])
        }

        var isEmpty: Bool { cache.isEmpty }
        func keep(_ names: Set<String>) { cache.keep(names) }
        func addresses(of name: String) -> [IPAddress]? { cache.addresses(of: name) }
        func failure(of name: String) -> NameLookupFailure? { cache.failure(of: name) }
        func take(_ answer: HostAnswer, of name: String, at now: Duration) -> Bool { cache.take(answer, of: name, at: now) }
        func notePathChange(at now: Duration) { cache.notePathChange(at: now) }
        func noteResolverChange(_ file: String, at now: Duration) { cache.noteResolverChange(file, at: now) }
        func changedFile(of name: String) -> String? { cache.changedFile(of: name) }
        func settle(at now: Duration) -> [String] { cache.settle(at: now) }
        func next(isWorthwhile: Bool) -> Duration? { cache.next(isWorthwhile: isWorthwhile) }

        func dueHosts(at now: Duration, isWorthwhile: Bool = true) -> [String] {
            cache.takeDueHosts(at: now, isWorthwhile: isWorthwhile)
        }
    }

    @Test func newHostIsLookedUpAtOnceAndAfterItsInterval() {
        let cache = Bench()
        #expect(
            cache.addresses(of: name) == nil && cache.dueHosts(at: .seconds(0)) == [name] && cache.dueHosts(at: .seconds(0)) == []
        )
        #expect(cache.take(answer, of: name, at: .zero) && cache.addresses(of: name) == [ip("192.0.2.9")])
        #expect(
            cache.next(isWorthwhile: true) == .seconds(60) && cache.dueHosts(at: .seconds(59)) == []
                && cache.dueHosts(at: .seconds(60)) == [name])
        #expect(!cache.take(answer, of: name, at: .seconds(61)))
    }

    @Test func missingIntervalLeavesPathChanges() {
        let cache = Bench(refresh: nil)
        _ = cache.dueHosts(at: .seconds(0))
        _ = cache.take(answer, of: name, at: .zero)
        #expect(cache.next(isWorthwhile: true) == nil)
        cache.notePathChange(at: .seconds(1000))
        #expect(cache.dueHosts(at: .seconds(1000)) == [name])
    }

    @Test func failuresKeepTheKnownAddresses() {
        let cache = Bench()
        _ = cache.dueHosts(at: .seconds(0))
        _ = cache.take(answer, of: name, at: .zero)
        var now = 60
        for delay in [1, 2, 4, 8, 15, 15] {
            #expect(cache.dueHosts(at: .seconds(now)) == [name], "after \(now) s")
            #expect(!cache.take(.failed(.noAnswer), of: name, at: .seconds(now)) && cache.addresses(of: name) == [ip("192.0.2.9")])
            #expect(cache.next(isWorthwhile: true) == .seconds(now + delay) && cache.dueHosts(at: .seconds(now + delay - 1)) == [])
            now += delay
        }
        _ = cache.dueHosts(at: .seconds(now))
        #expect(cache.take(.failed(.notFound), of: name, at: .seconds(now)) && cache.addresses(of: name) == [])
    }

    @Test func beingOfflineCostsNoLookups() {
        let cache = Bench()
        #expect(cache.dueHosts(at: .seconds(0), isWorthwhile: false) == [name], "the first answer may be in a file")
        _ = cache.take(.failed(.noAnswer), of: name, at: .zero)
        #expect(cache.dueHosts(at: .seconds(1000), isWorthwhile: false) == [] && cache.next(isWorthwhile: false) == nil)
        #expect(cache.dueHosts(at: .seconds(1000)) == [name])
    }

    @Test func pathChangesCauseOneLookupPerSecond() {
        let cache = Bench()
        _ = cache.dueHosts(at: .seconds(0))
        _ = cache.take(answer, of: name, at: .zero)
        cache.notePathChange(at: .milliseconds(10))
        #expect(
            cache.dueHosts(at: .milliseconds(999)) == [] && cache.next(isWorthwhile: true) == .seconds(1))
        #expect(cache.dueHosts(at: .seconds(1)) == [name])
    }

    /// Looks a host up without success until the pause is the longest one, and returns the time of the last failure.
    private func failing(_ cache: Bench) -> Duration {
        var now = Duration.zero
        for _ in 0..<8 {
            #expect(cache.dueHosts(at: now) == [name])
            _ = cache.take(.failed(.refused), of: name, at: now)
            now = cache.next(isWorthwhile: true) ?? now
        }
        return now - .seconds(15)
    }

    @Test(arguments: [false, true]) func changedFileEndsThePauseAfterFailures(isWorthwhile: Bool) {
        let cache = Bench()
        let now = failing(cache) + .seconds(3)
        cache.noteResolverChange("/etc/hosts", at: now)
        #expect(cache.next(isWorthwhile: isWorthwhile) == now + .milliseconds(100), "it may be in the file")
        #expect(cache.dueHosts(at: now + .milliseconds(99), isWorthwhile: isWorthwhile) == [])
        #expect(cache.dueHosts(at: now + .milliseconds(100), isWorthwhile: isWorthwhile) == [name])
        #expect(!cache.take(.failed(.refused), of: name, at: now + .milliseconds(100)))
        let next = cache.next(isWorthwhile: isWorthwhile)
        #expect(next == (isWorthwhile ? now + .milliseconds(1100) : nil), "the first pause again; offline it is endless")
    }

    @Test func fileThatIsRewrittenInStepsIsReadOnce() {
        let cache = Bench()
        let now = failing(cache) + .seconds(3)
        for step in 0..<5 { cache.noteResolverChange("/etc/resolv.conf", at: now + .milliseconds(step)) }
        #expect(cache.dueHosts(at: now + .milliseconds(104)) == [name])
        #expect(cache.take(answer, of: name, at: now + .milliseconds(104)))
        #expect(cache.next(isWorthwhile: true) == now + .milliseconds(104) + .seconds(60))
    }

    @Test func changesOfFilesCauseOneLookupPerSecond() {
        let cache = Bench()
        _ = cache.dueHosts(at: .zero)
        _ = cache.take(answer, of: name, at: .zero)
        cache.noteResolverChange("/etc/hosts", at: .milliseconds(10))
        #expect(cache.dueHosts(at: .milliseconds(999)) == [] && cache.dueHosts(at: .seconds(1)) == [name], "also a known host")
        _ = cache.take(answer, of: name, at: .seconds(1))
        cache.noteResolverChange("/etc/hosts", at: .milliseconds(1950))
        #expect(cache.dueHosts(at: .milliseconds(2049)) == [] && cache.dueHosts(at: .milliseconds(2050)) == [name])
    }

    @Test func answerByTheOldFileIsRepeated() {
        let cache = Bench()
        _ = cache.dueHosts(at: .zero)
        cache.noteResolverChange("/etc/resolv.conf", at: .milliseconds(4990))
        #expect(cache.dueHosts(at: .seconds(5)) == [], "one lookup at a time")
        #expect(cache.changedFile(of: name) == nil && cache.take(.failed(.noAnswer), of: name, at: .seconds(5)))
        #expect(cache.next(isWorthwhile: true) == .milliseconds(5090), "the file may be half written")
        #expect(cache.dueHosts(at: .milliseconds(5090)) == [name] && cache.changedFile(of: name) == "/etc/resolv.conf")
        #expect(cache.take(answer, of: name, at: .milliseconds(5090)) && cache.changedFile(of: name) == nil)
    }

    @Test func changedFileExplainsNoLateAnswer() {
        let cache = Bench()
        var now = failing(cache) + .seconds(3)
        cache.noteResolverChange("/etc/resolv.conf", at: now)
        cache.noteResolverChange("/etc/nsswitch.conf", at: now)
        var explained: [String?] = []
        for _ in 0..<6 {
            now = cache.next(isWorthwhile: true) ?? now
            #expect(cache.dueHosts(at: now) == [name])
            explained.append(cache.changedFile(of: name))
            _ = cache.take(.failed(.refused), of: name, at: now)
        }
        #expect(explained == Array(repeating: "/etc/nsswitch.conf", count: 5) + [nil], "the pauses are 1, 2, 4, 8 and 15 s")
        #expect(cache.changedFile(of: "other.example") == nil)
    }

    @Test func answerFromTheOldNetworkIsRepeated() {
        let cache = Bench()
        _ = cache.dueHosts(at: .seconds(0))
        cache.notePathChange(at: .milliseconds(500))
        #expect(cache.dueHosts(at: .seconds(1)) == [], "one lookup at a time")
        #expect(cache.take(answer, of: name, at: .seconds(5)) && cache.dueHosts(at: .seconds(5)) == [name])
        #expect(!cache.take(answer, of: name, at: .seconds(6)) && cache.dueHosts(at: .seconds(6)) == [])
    }

    @Test func waitForTheFirstAnswerEnds() {
        let cache = Bench()
        _ = cache.dueHosts(at: .seconds(3))
        #expect(cache.next(isWorthwhile: true) == .seconds(4) && cache.settle(at: .milliseconds(3999)) == [])
        #expect(cache.settle(at: .seconds(4)) == [name] && cache.addresses(of: name) == [] && cache.settle(at: .seconds(5)) == [])
        #expect(cache.take(answer, of: name, at: .seconds(9)) && cache.addresses(of: name) == [ip("192.0.2.9")])
    }

    @Test func answersAreSortedUniqueAndLimited() {
        let cache = Bench()
        let many = (0..<300).map { IPAddress(family: .ipv6, value: UInt128(300 - $0)) }
        _ = cache.take(.addresses(many + [ip("::ffff:192.0.2.9"), ip("192.0.2.9"), ip("192.0.2.8")]), of: name, at: .zero)
        let addresses = cache.addresses(of: name)
        #expect(addresses?.prefix(3) == [ip("192.0.2.8"), ip("192.0.2.9"), IPAddress(family: .ipv6, value: 1)])
        #expect(addresses?.count == HostCache.addressLimit)
        #expect(!cache.take(.addresses(many.reversed() + [ip("192.0.2.8"), ip("192.0.2.9")]), of: name, at: .zero))
    }

    @Test func removedHostIsForgotten() {
        let cache = Bench()
        _ = cache.dueHosts(at: .seconds(0))
        cache.keep([])
        #expect(!cache.take(answer, of: name, at: .zero) && cache.isEmpty && cache.next(isWorthwhile: true) == nil)
        cache.keep([name])
        #expect(cache.dueHosts(at: .seconds(0)) == [name])
    }

    @Test(arguments: [NameLookupFailure.notFound, .noAnswer, .refused])
    func aFailureIsTheReasonUntilThereAreAddresses(failure: NameLookupFailure) {
        let cache = Bench()
        #expect(cache.failure(of: name) == nil)
        _ = cache.dueHosts(at: .zero)
        #expect(cache.failure(of: name) == nil, "the first lookup goes on")
        #expect(cache.take(.failed(failure), of: name, at: .zero) && cache.failure(of: name) == failure)
        #expect(!cache.take(.failed(failure), of: name, at: .seconds(1)), "the same again is no news")
        let other: NameLookupFailure = failure == .refused ? .noAnswer : .refused
        #expect(cache.take(.failed(other), of: name, at: .seconds(2)) && cache.failure(of: name) == other)
        #expect(cache.take(answer, of: name, at: .seconds(3)) && cache.failure(of: name) == nil)
        // Known addresses outlive a failure that may pass.
        #expect(cache.take(.failed(failure), of: name, at: .seconds(4)) == (failure == .notFound))
        #expect(cache.failure(of: name) == (failure == .notFound ? .notFound : nil))
    }

    @Test func slowFirstLookupHasNoAnswer() {
        let cache = Bench()
        _ = cache.dueHosts(at: .zero)
        _ = cache.settle(at: .seconds(1))
        #expect(cache.failure(of: name) == .noAnswer)
        let deaf = Bench(isAnswered: false)
        _ = deaf.dueHosts(at: .zero)
        _ = deaf.settle(at: .seconds(1))
        #expect(deaf.failure(of: name) == .notAsked, "the source looks up no names")
    }
}
