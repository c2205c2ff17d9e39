import Reachability
import Testing

/// When hosts are looked up, and what is made of the answers.
struct HostCacheTests {
    private let name = "nas.example"
    private let answer = HostAnswer.addresses([ip("192.0.2.9")])

    /// A book in a test's hand, where expectations may change it.
    private final class Bench {
        var book: HostCache

        init(refresh: Duration? = .seconds(60), isAnswered: Bool = true) {
            book = HostCache(refreshInterval: refresh, isAnswered: isAnswered)
            book.keep(["nas.example"])
        }

        var isEmpty: Bool { book.isEmpty }
        func keep(_ names: Set<String>) { book.keep(names) }
        func addresses(of name: String) -> [IPAddress]? { book.addresses(of: name) }
        func failure(of name: String) -> NameLookupFailure? { book.failure(of: name) }
        func take(_ answer: HostAnswer, of name: String, at now: Duration) -> Bool { book.take(answer, of: name, at: now) }
        func notePathChange(at now: Duration) { book.notePathChange(at: now) }
        func settle(at now: Duration) -> [String] { book.settle(at: now) }
        func next(isWorthwhile: Bool) -> Duration? { book.next(isWorthwhile: isWorthwhile) }

        func questions(at now: Duration, isWorthwhile: Bool = true) -> [String] {
            book.takeQuestions(at: now, isWorthwhile: isWorthwhile)
        }
    }

    @Test func aNewHostIsLookedUpOnceAndAfterItsInterval() {
        let book = Bench()
        #expect(
            book.addresses(of: name) == nil && book.questions(at: .seconds(0)) == [name] && book.questions(at: .seconds(0)) == [])
        #expect(book.take(answer, of: name, at: .zero) && book.addresses(of: name) == [ip("192.0.2.9")])
        #expect(
            book.next(isWorthwhile: true) == .seconds(60) && book.questions(at: .seconds(59)) == []
                && book.questions(at: .seconds(60)) == [name])
        #expect(!book.take(answer, of: name, at: .seconds(61)))
    }

    @Test func withoutAnIntervalItIsLookedUpWhenThePathChangesAlone() {
        let book = Bench(refresh: nil)
        _ = book.questions(at: .seconds(0))
        _ = book.take(answer, of: name, at: .zero)
        #expect(book.next(isWorthwhile: true) == nil)
        book.notePathChange(at: .seconds(1000))
        #expect(book.questions(at: .seconds(1000)) == [name])
    }

    @Test func failuresAreRetriedWithGrowingDelayAndLeaveWhatWasKnown() {
        let book = Bench()
        _ = book.questions(at: .seconds(0))
        _ = book.take(answer, of: name, at: .zero)
        var now = 60
        for delay in [1, 2, 4, 8, 16, 32, 60, 60] {
            #expect(book.questions(at: .seconds(now)) == [name], "after \(now) s")
            #expect(!book.take(.failed(.noAnswer), of: name, at: .seconds(now)) && book.addresses(of: name) == [ip("192.0.2.9")])
            #expect(book.next(isWorthwhile: true) == .seconds(now + delay) && book.questions(at: .seconds(now + delay - 1)) == [])
            now += delay
        }
        _ = book.questions(at: .seconds(now))
        #expect(book.take(.failed(.notFound), of: name, at: .seconds(now)) && book.addresses(of: name) == [])
    }

    @Test func beingOfflineCostsNoLookUps() {
        let book = Bench()
        #expect(book.questions(at: .seconds(0), isWorthwhile: false) == [name], "the first answer may be in a file")
        _ = book.take(.failed(.noAnswer), of: name, at: .zero)
        #expect(book.questions(at: .seconds(1000), isWorthwhile: false) == [] && book.next(isWorthwhile: false) == nil)
        #expect(book.questions(at: .seconds(1000)) == [name])
    }

    @Test func aPathChangeHasItLookedUpAgainAtMostOnceASecond() {
        let book = Bench()
        _ = book.questions(at: .seconds(0))
        _ = book.take(answer, of: name, at: .zero)
        book.notePathChange(at: .milliseconds(10))
        #expect(
            book.questions(at: .milliseconds(999)) == [] && book.next(isWorthwhile: true) == .seconds(1))
        #expect(book.questions(at: .seconds(1)) == [name])
    }

    @Test func anAnswerFromTheNetworkThatWasLeftIsAskedForAgain() {
        let book = Bench()
        _ = book.questions(at: .seconds(0))
        book.notePathChange(at: .milliseconds(500))
        #expect(book.questions(at: .seconds(1)) == [], "one look-up at a time")
        #expect(book.take(answer, of: name, at: .seconds(5)) && book.questions(at: .seconds(5)) == [name])
        #expect(!book.take(answer, of: name, at: .seconds(6)) && book.questions(at: .seconds(6)) == [])
    }

    @Test func patienceWithTheFirstAnswerEnds() {
        let book = Bench()
        _ = book.questions(at: .seconds(3))
        #expect(book.next(isWorthwhile: true) == .seconds(4) && book.settle(at: .milliseconds(3999)) == [])
        #expect(book.settle(at: .seconds(4)) == [name] && book.addresses(of: name) == [] && book.settle(at: .seconds(5)) == [])
        #expect(book.take(answer, of: name, at: .seconds(9)) && book.addresses(of: name) == [ip("192.0.2.9")])
    }

    @Test func answersAreOrderedUnmappedUniqueAndFew() {
        let book = Bench()
        let many = (0..<300).map { IPAddress(family: .ipv6, value: UInt128(300 - $0)) }
        _ = book.take(.addresses(many + [ip("::ffff:192.0.2.9"), ip("192.0.2.9"), ip("192.0.2.8")]), of: name, at: .zero)
        let addresses = book.addresses(of: name)
        #expect(addresses?.prefix(3) == [ip("192.0.2.8"), ip("192.0.2.9"), IPAddress(family: .ipv6, value: 1)])
        #expect(addresses?.count == HostCache.addressLimit)
        #expect(!book.take(.addresses(many.reversed() + [ip("192.0.2.8"), ip("192.0.2.9")]), of: name, at: .zero))
    }

    @Test func whoIsNotAskedAboutAnyMoreIsForgotten() {
        let book = Bench()
        _ = book.questions(at: .seconds(0))
        book.keep([])
        #expect(!book.take(answer, of: name, at: .zero) && book.isEmpty && book.next(isWorthwhile: true) == nil)
        book.keep([name])
        #expect(book.questions(at: .seconds(0)) == [name])
    }

    @Test(arguments: [NameLookupFailure.notFound, .noAnswer, .refused])
    func aFailureIsTheReasonUntilThereAreAddresses(failure: NameLookupFailure) {
        let book = Bench()
        #expect(book.failure(of: name) == nil)
        _ = book.questions(at: .zero)
        #expect(book.failure(of: name) == nil, "the first lookup goes on")
        #expect(book.take(.failed(failure), of: name, at: .zero) && book.failure(of: name) == failure)
        #expect(!book.take(.failed(failure), of: name, at: .seconds(1)), "the same again is no news")
        let other: NameLookupFailure = failure == .refused ? .noAnswer : .refused
        #expect(book.take(.failed(other), of: name, at: .seconds(2)) && book.failure(of: name) == other)
        #expect(book.take(answer, of: name, at: .seconds(3)) && book.failure(of: name) == nil)
        // Known addresses outlive a failure that may pass.
        #expect(book.take(.failed(failure), of: name, at: .seconds(4)) == (failure == .notFound))
        #expect(book.failure(of: name) == (failure == .notFound ? .notFound : nil))
    }

    @Test func aFirstLookupThatTakesTooLongHasNoAnswer() {
        let book = Bench()
        _ = book.questions(at: .zero)
        _ = book.settle(at: .seconds(1))
        #expect(book.failure(of: name) == .noAnswer)
        let deaf = Bench(isAnswered: false)
        _ = deaf.questions(at: .zero)
        _ = deaf.settle(at: .seconds(1))
        #expect(deaf.failure(of: name) == .notAsked, "the source looks up no names")
    }
}
