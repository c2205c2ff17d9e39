import ReachableRetry
import Testing

@testable import ReachableFleet

/// The rules of a node's own word.
@Suite struct OwnWordTests {
    typealias Member = TestMember

    // MARK: - Epochs

    @Test func firstWordWaitsForStoredWord() throws {
        var member = try Member()
        member.connect()
        member.pass(.milliseconds(999))
        #expect(member.words.isEmpty)
        member.pass(.milliseconds(1))
        #expect(member.words.map(\.epoch) == [1])
    }

    @Test func storedWordEndsWait() throws {
        var member = try Member(storedEpoch: 4)
        member.connect()
        member.hear(Member.word(.lost, epoch: 4, run: "before"), isRetained: true)
        #expect(member.words.map(\.epoch) == [5])
    }

    @Test func willSaysLostWithEpochOfSession() throws {
        var member = try Member(storedEpoch: 4)
        member.connect()
        #expect(member.wills.map(\.state) == [.lost])
        #expect(member.wills.map(\.epoch) == [5])
        #expect(member.has(.store(epoch: 5)))
    }

    @Test func epochGrowsWithEachSession() throws {
        var member = try Member()
        for _ in 0..<3 {
            member.connect()
            member.pass(.seconds(2))
            member.send(.disconnected)
        }
        #expect(member.words.map(\.epoch) == [1, 2, 3])
        #expect(member.words.map(\.sequence) == [1, 2, 3])
        #expect(member.words.map(\.first) == [1, 1, 1])
    }

    @Test func failedConnectionsKeepEpoch() throws {
        var member = try Member(storedEpoch: 7)
        for _ in 0..<3 {
            member.send(.connecting)
            member.send(.disconnected)
        }
        #expect(member.wills.map(\.epoch) == [8, 8, 8])
    }

    @Test func reinstalledNodeGoesOnCounting() throws {
        var member = try Member()
        member.connect()
        member.hear(Member.word(epoch: 57, run: "before"), isRetained: true)
        #expect(member.words.isEmpty)
        #expect(member.has(.disconnect))
        member.send(.disconnected)
        _ = member.takeEffects()
        member.connect()
        #expect(member.wills.map(\.epoch) == [58])
        member.hear(Member.word(epoch: 57, run: "before"), isRetained: true)
        member.pass(.seconds(1))
        #expect(member.words.map(\.epoch) == [58])
        #expect(member.words.map(\.first) == [58])
    }

    @Test func largestEpochNeverTraps() throws {
        var member = try Member(storedEpoch: .max)
        for _ in 0..<3 {
            member.connect()
            member.hear(Member.word(epoch: WordCoding.largestNumber, run: "before"), isRetained: true)
            member.pass(.seconds(2))
            member.send(.disconnected)
        }
        #expect(member.words.map(\.epoch) == Array(repeating: WordCoding.largestNumber, count: 3))
    }

    @Test func lateStoredWordRenewsEpoch() throws {
        var member = try Member()
        member.connect()
        member.pass(.seconds(1))
        #expect(member.words.map(\.epoch) == [1])
        // On a slow line the stored word comes after the first own one was published, and before it comes back.
        member.hear(Member.word(epoch: 57, run: "before"), isRetained: true)
        try member.echo()
        member.pass(.seconds(1))
        #expect(member.has(.disconnect))
        member.send(.disconnected)
        member.connect()
        #expect(member.wills.map(\.epoch) == [1, 58])
    }

    // MARK: - The last word of the own topic

    static let foreignWords: [(name: String, payload: [UInt8])] = [
        ("a late will", WordCoding.payload(TestMember.word(.lost, epoch: 2, run: "run"))),
        ("the session's own will", WordCoding.payload(TestMember.word(.lost, epoch: 3, sequence: 1, run: "run"))),
        ("a word of a run before", WordCoding.payload(TestMember.word(epoch: 1, run: "before"))),
        ("a word of an earlier session", WordCoding.payload(TestMember.word(epoch: 2, run: "run"))),
        ("a removed word", []),
        ("nonsense", Array("lost".utf8)),
        ("another version", Array(#"{"v":2}"#.utf8)),
        ("too long a word", Array(repeating: 32, count: 1025)),
    ]

    @Test(arguments: foreignWords.map(\.name)) func foreignWordIsOverwritten(name: String) throws {
        let payload = try #require(Self.foreignWords.first { $0.name == name }).payload
        var member = try Member(storedEpoch: 2)
        try member.join()
        member.pass(.seconds(5))
        member.hear(payload)
        #expect(member.words.map(\.epoch) == [3])
        #expect(member.words.map(\.sequence) == [2])
        #expect(member.words.map(\.state) == [.online])
        try member.echo()
        member.pass(.seconds(60))
        #expect(member.words.count == 1)
    }

    @Test func earlierWordOnItsWayIsNoForeignWord() throws {
        var member = try Member()
        member.connect()
        member.pass(.seconds(1))
        let first = try #require(member.words.last)
        member.send(.verdict(.offline, reason: "noCarrier"))
        member.pass(.seconds(1))
        #expect(member.words.count == 2)
        member.hear(first)
        member.pass(.seconds(5))
        #expect(member.words.count == 2)
        // After the last word it is one that overwrites it.
        try member.echo()
        member.hear(first)
        #expect(member.words.count == 3)
    }

    @Test func ownWordAfterWillNeedsNoRepetition() throws {
        var member = try Member(storedEpoch: 2)
        member.connect()
        member.pass(.seconds(1))
        member.hear(Member.word(.lost, epoch: 2, run: "run"))
        try member.echo()
        member.pass(.seconds(5))
        #expect(member.words.count == 1)
    }

    @Test func renewalEndsOwnWordThatStands() throws {
        var member = try Member()
        member.connect()
        member.pass(.seconds(1))
        member.hear(Member.word(epoch: 57, run: "before"), isRetained: true)
        member.pass(.seconds(1))
        // The machine may crash before its next session, and DISCONNECT drops the will.
        #expect(member.words.map(\.state) == [.online, .lost])
        #expect(member.has(.disconnect))
        // The word of another machine needs no end.
        var other = try Member(storedEpoch: 2)
        try other.join()
        other.pass(.seconds(5))
        other.hear(Member.word(epoch: 3, run: "x"))
        #expect(other.words.isEmpty && other.has(.disconnect))
    }

    @Test(arguments: [true, false]) func renewalEndsOwnWordThatMayStand(isConfirmed: Bool) throws {
        var member = try Member()
        try member.join()
        member.pass(.seconds(5))
        member.send(.verdict(.offline, reason: "noCarrier"))
        if isConfirmed { try member.echo() }
        // The goodbye of another machine with the name came before the change, unless the topic has shown the change.
        member.hear(Member.word(.disconnected, epoch: 1))
        member.pass(.seconds(1))
        #expect(member.words.map(\.state) == (isConfirmed ? [.offline] : [.offline, .lost]))
        #expect(member.has(.disconnect))
    }

    @Test func wordWaitsForSubscription() throws {
        var member = try Member()
        member.send(.connecting)
        member.send(.connected)
        member.pass(.seconds(10))
        #expect(member.words.isEmpty && !member.picture.isCurrent)
        member.send(.subscribed)
        member.pass(.seconds(1))
        #expect(member.words.count == 1)
    }

    @Test func earlyTimerIsAskedForAgain() throws {
        var member = try Member()
        member.connect()
        let wake = member.wakeAt
        member.pass(.milliseconds(500))
        #expect(member.send(.timer) == [.wake(at: wake)])
    }

    // MARK: - Changes

    @Test func changeIsPublished() throws {
        var member = try Member()
        try member.join()
        member.pass(.seconds(5))
        member.send(.verdict(.degraded, reason: "captivePortal"))
        let word = try #require(member.words.last)
        #expect(word.state == .degraded && word.reason == "captivePortal" && word.since == 1_700_000_106)
    }

    @Test func wordsAreAtLeastOneSecondApart() throws {
        var member = try Member()
        try member.join()
        for number in 0..<40 {
            member.send(.verdict(number.isMultiple(of: 2) ? .offline : .online, reason: nil))
            member.pass(.milliseconds(100))
        }
        #expect(member.words.count <= 4)
        member.pass(.seconds(1))
        #expect(member.core.announcer.session?.word?.state == .online)
    }

    @Test func changeAndBackNeedsNoWord() throws {
        var member = try Member()
        try member.join()
        member.send(.verdict(.offline, reason: "noCarrier"))
        member.send(.verdict(.online, reason: nil))
        member.pass(.seconds(5))
        #expect(member.words.isEmpty)
    }

    @Test(arguments: FleetNode.State.allCases) func onlyStatesOfNetworkAreTaken(state: FleetNode.State) throws {
        var member = try Member()
        try member.join()
        member.pass(.seconds(5))
        member.send(.verdict(state, reason: "with a space"))
        let known: [FleetNode.State] = [.degraded, .offline]
        #expect(member.words.map(\.state) == known.filter { $0 == state })
        #expect(member.words.allSatisfy { $0.reason == nil })
    }

    // MARK: - The end

    @Test func cleanStopSaysDisconnected() throws {
        var member = try Member()
        try member.join()
        member.send(.verdict(.offline, reason: nil))
        let effects = member.send(.stop)
        #expect(member.words.map(\.state) == [.disconnected])
        #expect(effects.contains(.disconnect))
        #expect(member.has(.wake(at: .never)))
        member.send(.disconnected)
        #expect(member.send(.connecting).isEmpty)
        #expect(member.send(.verdict(.online, reason: nil)).isEmpty)
    }

    @Test func stopBeforeFirstWordEndsWordOfEarlierRun() throws {
        var member = try Member(storedEpoch: 4)
        member.connect()
        member.send(.stop)
        #expect(member.words.map(\.state) == [.disconnected])
        #expect(member.words.map(\.epoch) == [5])
        #expect(member.has(.disconnect))
    }

    @Test func stopWithoutConnectionSaysNothing() throws {
        var member = try Member()
        #expect(member.send(.stop).filter { $0 != .wake(at: .never) }.isEmpty)
    }

    // MARK: - Two machines of one name

    /// A member that has announced itself with epoch 5, and then hears of a rival.
    private func member(hearing word: FleetWord, isRetained: Bool = false) throws -> Member {
        var member = try Member(run: "m", storedEpoch: 4)
        try member.join()
        member.pass(.seconds(5))
        member.hear(word, isRetained: isRetained)
        return member
    }

    @Test func earlierMachineRenewsItsEpoch() throws {
        var member = try member(hearing: Member.word(epoch: 6, run: "x", first: 6))
        #expect(member.changes.contains(.nameInUse(by: Member.name("x"), isSilent: false)))
        #expect(member.has(.disconnect))
        member.send(.disconnected)
        _ = member.takeEffects()
        member.connect()
        member.pass(.seconds(2))
        #expect(member.words.map(\.epoch) == [7])
        #expect(member.words.map(\.first) == [5])
    }

    @Test func laterMachineIsSilentForAMinute() throws {
        var member = try member(hearing: Member.word(epoch: 6, run: "x", first: 3))
        #expect(member.changes.contains(.nameInUse(by: Member.name("x"), isSilent: true)))
        member.pass(.milliseconds(59_999))
        #expect(member.words.isEmpty && !member.has(.disconnect))
        member.pass(.milliseconds(1))
        #expect(member.has(.disconnect))
        member.send(.disconnected)
        _ = member.takeEffects()
        member.connect()
        member.pass(.seconds(2))
        #expect(member.words.map(\.epoch) == [7])
    }

    @Test func silenceOutlastsConnection() throws {
        var member = try member(hearing: Member.word(epoch: 6, run: "x", first: 3))
        member.pass(.seconds(10))
        member.send(.disconnected)
        member.connect()
        member.pass(.milliseconds(49_999))
        #expect(member.words.isEmpty)
        member.pass(.milliseconds(1))
        #expect(member.words.count == 1)
    }

    @Test func equalFirstEpochsAreOrderedByRun() throws {
        let later = try member(hearing: Member.word(epoch: 5, run: "a", first: 5))
        #expect(later.changes.contains(.nameInUse(by: Member.name("a"), isSilent: true)))
        let earlier = try member(hearing: Member.word(epoch: 5, run: "z", first: 5))
        #expect(earlier.changes.contains(.nameInUse(by: Member.name("z"), isSilent: false)))
        #expect(earlier.has(.disconnect))
    }

    @Test func silentMachineSaysNothingAtItsEnd() throws {
        var member = try member(hearing: Member.word(epoch: 6, run: "x", first: 3))
        member.send(.stop)
        #expect(member.words.isEmpty)
    }

    @Test func silentMachineEndsItsWordThatMayStand() throws {
        var member = try Member()
        try member.join()
        member.pass(.seconds(5))
        member.send(.verdict(.offline, reason: "noCarrier"))
        // The word of the earlier machine came before the change, and that machine may be gone before it sees it.
        member.hear(Member.word(epoch: 1, run: "a", first: 0))
        #expect(member.core.announcer.silentUntil > member.now)
        member.hear(Member.word(.offline, epoch: 1, sequence: 2, run: "run", reason: "noCarrier"))
        member.send(.stop)
        #expect(member.words.map(\.state) == [.offline, .disconnected])
    }

    static let noRivals: [(name: String, word: FleetWord, isRetained: Bool)] = [
        ("an older word", TestMember.word(epoch: 4, run: "x", first: 3), false),
        ("a will", TestMember.word(.lost, epoch: 6, run: "x", first: 3), false),
        ("an end", TestMember.word(.disconnected, epoch: 6, run: "x", first: 3), false),
        ("a stored word of an earlier run", TestMember.word(epoch: 6, run: "x", first: 3), true),
        ("a stored word of a later run", TestMember.word(epoch: 6, run: "x", first: 6), true),
        ("an own word", TestMember.word(epoch: 6, run: "m", first: 5), false),
    ]

    @Test(arguments: noRivals.map(\.name)) func otherWordsAreNoRivals(name: String) throws {
        let row = try #require(Self.noRivals.first { $0.name == name })
        let member = try member(hearing: row.word, isRetained: row.isRetained)
        #expect(!member.changes.contains { if case .nameInUse = $0 { true } else { false } })
        #expect(member.core.announcer.silentUntil == .past)
    }

    @Test func runBeforeThisOneIsNoRival() throws {
        var member = try Member(storedEpoch: 4)
        member.connect()
        member.hear(Member.word(epoch: 4, run: "before"), isRetained: true)
        member.pass(.seconds(1))
        member.hear(Member.word(.lost, epoch: 4, run: "before"))
        member.pass(.seconds(5))
        #expect(!member.changes.contains { if case .nameInUse = $0 { true } else { false } })
    }

    @Test func reservedNameIsRefused() {
        #expect(throws: FleetError(.reservedName, subject: "trigger")) { try Member("trigger") }
    }
}
