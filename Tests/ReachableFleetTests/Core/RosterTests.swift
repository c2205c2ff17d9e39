import ReachableRetry
import Testing

@testable import ReachableFleet

/// The rules of what the other nodes are.
@Suite struct RosterTests {
    typealias Member = TestMember

    /// A word after another one of the same node; true if it counts.
    static let orders: [(name: String, words: [FleetWord], counts: Bool)] = [
        ("a higher epoch", [TestMember.word(epoch: 2), TestMember.word(.offline, epoch: 3, sequence: 2)], true),
        ("an older epoch", [TestMember.word(epoch: 2), TestMember.word(.offline, epoch: 1, sequence: 9)], false),
        ("a late will", [TestMember.word(epoch: 2), TestMember.word(.lost, epoch: 1)], false),
        ("a will", [TestMember.word(epoch: 2, sequence: 3), TestMember.word(.lost, epoch: 2, sequence: 1)], true),
        ("a higher number", [TestMember.word(sequence: 2), TestMember.word(.offline, sequence: 3)], true),
        ("a repeated word", [TestMember.word(.offline, sequence: 2), TestMember.word(.offline, sequence: 2)], false),
        ("a lower number", [TestMember.word(sequence: 2), TestMember.word(.offline, sequence: 1)], false),
        (
            "a repeated word after a will",
            [TestMember.word(sequence: 2), TestMember.word(.lost, sequence: 0), TestMember.word(sequence: 2)], false
        ),
        (
            "a contradiction to a will",
            [TestMember.word(sequence: 2), TestMember.word(.lost, sequence: 0), TestMember.word(sequence: 3)], true
        ),
        ("another run of the same epoch", [TestMember.word(sequence: 2), TestMember.word(.offline, run: "x")], true),
        ("another run of an older epoch", [TestMember.word(epoch: 2), TestMember.word(.offline, epoch: 1, run: "x")], true),
        ("the late will of another run", [TestMember.word(epoch: 2), TestMember.word(.lost, epoch: 1, run: "x")], false),
        ("the late end of another run", [TestMember.word(epoch: 2), TestMember.word(.disconnected, epoch: 1, run: "x")], false),
    ]

    @Test(arguments: orders.map(\.name)) func laterWordCounts(name: String) throws {
        let row = try #require(Self.orders.first { $0.name == name })
        var member = try Member()
        try member.join()
        for word in row.words { member.hear(word, of: "other") }
        let last = try #require(row.words.last)
        #expect(member.core.counts.outdated == (row.counts ? 0 : 1))
        let entry = try #require(member.core.roster.entries[Member.name("other")])
        #expect((entry.word == last) == row.counts || row.words.dropLast().contains(last))
    }

    @Test func changesAreToldOnce() throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(sequence: 1), of: "other")
        member.hear(Member.word(sequence: 2), of: "other")
        member.hear(Member.word(.offline, sequence: 3, reason: "noCarrier"), of: "other")
        let states = member.changes.compactMap { if case .node(let node) = $0 { node.state } else { nil } }
        #expect(states == [.online, .offline])
        #expect(member.picture.nodes.map(\.name.description) == ["nas", "other"])
        #expect(member.picture.nodes.last?.reason == "noCarrier")
    }

    @Test func sequenceHasNoHoles() throws {
        var member = try Member()
        try member.join()
        for number in 1...5 {
            member.hear(Member.word(number.isMultiple(of: 2) ? .online : .offline, sequence: UInt64(number)), of: "b")
        }
        member.send(.disconnected)
        let sequences = member.takeEffects().compactMap { if case .changed(let change) = $0 { change.sequence } else { nil } }
        #expect(sequences == Array(2...7))
        #expect(member.picture.sequence == 7)
    }

    // MARK: - The unknown picture

    @Test func pictureIsUnknownBeforeOwnWord() throws {
        var member = try Member()
        #expect(member.picture.unknownSince == .seconds(1_700_000_100))
        member.connect()
        member.hear(Member.word(), of: "other", isRetained: true)
        #expect(!member.picture.isCurrent && member.changes.isEmpty)
        member.pass(.seconds(1))
        #expect(!member.picture.isCurrent)
        try member.echo()
        #expect(member.picture.isCurrent && member.changes == [.current])
        #expect(member.picture.nodes.map(\.state) == [.online, .online])
    }

    @Test func pictureIsCurrentAfterFiveSecondsWithoutOwnWord() throws {
        var member = try Member()
        member.connect()
        member.pass(.milliseconds(4999))
        #expect(!member.picture.isCurrent)
        member.pass(.milliseconds(1))
        #expect(member.picture.isCurrent)
    }

    /// A broker that sends a thousand nodes all words of each other sends the own one late.
    @Test func ownWordMayBeLateWhileMessagesCome() throws {
        var member = try Member()
        member.connect()
        for number in 1...6 {
            member.pass(.milliseconds(1_500))
            member.hear(Member.word(sequence: UInt64(number)), of: "other")
        }
        // Looks at 5, 7 and 9 s found a message of the last two seconds.
        member.pass(.milliseconds(1_999))
        #expect(!member.picture.isCurrent)
        member.pass(.milliseconds(1))
        #expect(member.picture.isCurrent && member.core.isUnheard)
    }

    @Test func waitForOwnWordHasALimit() throws {
        var member = try Member()
        member.connect()
        for number in 1...30 {
            #expect(!member.picture.isCurrent)
            member.pass(.seconds(1))
            member.hear(Member.word(sequence: UInt64(number)), of: "other")
        }
        // The looks come at 5 s and then each 2 s.
        member.pass(.seconds(1))
        #expect(member.picture.isCurrent)
    }

    @Test func lostBrokerMakesPictureUnknown() throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(), of: "other")
        member.pass(.seconds(9))
        member.send(.disconnected)
        #expect(member.changes.last == .unknown)
        #expect(member.picture.unknownSince == .seconds(1_700_000_110))
        member.pass(.seconds(30))
        // Failed attempts do not make it younger.
        member.send(.connecting)
        member.send(.disconnected)
        #expect(member.picture.unknownSince == .seconds(1_700_000_110))
        #expect(member.picture.nodes.map(\.state) == [.unknown, .unknown])
        #expect(member.picture.nodes.map(\.lastState) == [.online, .online])
        #expect(member.changes.count { $0 == .unknown } == 1)
    }

    @Test func renewedSessionIsUnknownUntilOwnWord() throws {
        var member = try Member(storedEpoch: 4)
        try member.join()
        member.pass(.seconds(5))
        member.hear(Member.word(epoch: 6, run: "x"))
        #expect(member.has(.disconnect))
        #expect(!member.picture.isCurrent)
    }

    @Test func messagesOutsideOfConnectionAreIgnored() throws {
        var member = try Member()
        member.hear(Member.word(), of: "other")
        try member.join()
        member.send(.disconnected)
        member.hear(Member.word(), of: "other")
        #expect(member.picture.nodes.map(\.name.description) == ["nas"])
    }

    // MARK: - Levels

    /// The level of `other` by both policies.
    private func levels(_ member: Member) -> [Bool] {
        [UnknownNodePolicy.failOpen, .failClosed].map { policy in
            member.core.isPresent(Member.name("other"), whenUnknown: policy, at: member.now)
        }
    }

    static let states: [(FleetNode.State, Bool)] = [
        (.online, true), (.degraded, true), (.offline, false), (.disconnected, false), (.lost, false),
    ]

    @Test(arguments: states) func levelFollowsState(state: FleetNode.State, isPresent: Bool) throws {
        var member = try Member()
        try member.join()
        #expect(levels(member) == [false, false])
        member.hear(Member.word(state), of: "other")
        #expect(levels(member) == [isPresent, isPresent])
    }

    @Test(arguments: states) func unknownPictureKeepsLevelForAMinute(state: FleetNode.State, isPresent: Bool) throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(state), of: "other")
        member.send(.disconnected)
        member.pass(.milliseconds(59_999))
        #expect(levels(member) == [isPresent, isPresent])
        #expect(member.changes.last == .unknown)
        member.pass(.milliseconds(1))
        #expect(levels(member) == [true, false])
        #expect(member.changes.last == .keptLongEnough)
    }

    @Test func levelWithoutAnyBrokerOpensAfterAMinute() throws {
        var member = try Member()
        member.send(.connecting)
        member.send(.disconnected)
        #expect(levels(member) == [false, false])
        member.pass(.seconds(60))
        #expect(levels(member) == [true, false])
    }

    @Test func knownPictureEndsOpenLevel() throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(.lost), of: "other")
        member.send(.disconnected)
        member.pass(.seconds(100))
        #expect(levels(member) == [true, false])
        member.connect()
        member.hear(Member.word(.lost), of: "other", isRetained: true)
        member.pass(.seconds(1))
        try member.echo()
        #expect(levels(member) == [false, false])
    }

    @Test func numberOfMembersIsKeptForADay() throws {
        var member = try Member()
        try member.join()
        for name in ["a", "b"] { member.hear(Member.word(.lost), of: name) }
        member.hear(Member.word(.disconnected), of: "c")
        #expect(member.sizes == [2, 3])
        member.send(.disconnected)
        member.pass(.seconds(86_399))
        #expect(member.sizes == [2, 3])
        member.pass(.seconds(1))
        #expect(member.sizes == [2, 3, 1])
        member.connect()
        member.hear(Member.word(.lost), of: "a", isRetained: true)
        member.pass(.seconds(1))
        try member.echo()
        #expect(member.sizes == [2, 3, 1, 3], "both are known, and neither has left")
    }

    // MARK: - Each connection begins with the broker's words

    @Test func nodeWithoutWordIsUnknownAndThenRemoved() throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(), of: "other")
        member.send(.disconnected)
        try member.join()
        #expect(member.picture.isCurrent)
        #expect(member.picture.nodes.map(\.state) == [.online, .unknown])
        #expect(levels(member) == [true, true])
        member.pass(.milliseconds(59_999))
        #expect(levels(member) == [true, true])
        member.pass(.milliseconds(1))
        #expect(member.changes == [.removed(Member.name("other"))])
        #expect(levels(member) == [false, false])
        #expect(member.picture.nodes.count == 1)
    }

    @Test func olderEpochCountsAfterConnection() throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(epoch: 57), of: "other")
        member.send(.disconnected)
        member.connect()
        member.hear(Member.word(.degraded, epoch: 1, run: "reinstalled"), of: "other", isRetained: true)
        member.pass(.seconds(1))
        try member.echo()
        #expect(member.picture.nodes.map(\.state) == [.online, .degraded])
        #expect(member.core.counts.outdated == 0)
    }

    // MARK: - Old and forgotten nodes

    @Test func nodesNotSeenForThirtyDaysAreOld() throws {
        var member = try Member()
        try member.join()
        let now: UInt64 = 1_700_000_101
        let day: UInt64 = 86_400
        member.hear(Member.word(.lost, since: now - 30 * day), of: "a", isRetained: true)
        member.hear(Member.word(.lost, since: now - 30 * day + 1), of: "b", isRetained: true)
        member.hear(Member.word(.online, since: now - 300 * day), of: "c", isRetained: true)
        // A will that comes now is a sign that the node was there.
        member.hear(Member.word(.lost, since: now - 300 * day), of: "d")
        member.hear(Member.word(.disconnected, since: now + 300 * day), of: "e", isRetained: true)
        #expect(member.picture.nodes.filter(\.isOld).map(\.name.description) == ["a"])
        member.pass(.seconds(30 * 86_400))
        #expect(member.picture.nodes.filter(\.isOld).map(\.name.description) == ["a", "b", "d", "e"])
    }

    @Test func forgottenNodeIsRemoved() throws {
        var member = try Member()
        try member.join()
        member.hear(Member.word(.lost, epoch: 9), of: "other")
        let topic = FleetTopic.status(Member.name("other")).text(site: Member.site)
        let effects = member.send(.forget(Member.name("other")))
        #expect(
            effects == [
                .publish(FleetMessage(topic: topic, payload: [], isRetained: true)), .wake(at: member.now + FleetCore.showing),
            ])
        member.hear([], of: "third")
        #expect(!member.effects.contains { if case .settled = $0 { true } else { false } })
        member.hear([], of: "other")
        #expect(member.has(.settled(.forget(Member.name("other")), .shown)))
        #expect(member.changes.last == .removed(Member.name("other")))
        #expect(member.picture.nodes.count == 1)
        // A reinstalled node begins again.
        member.hear(Member.word(epoch: 1), of: "other")
        #expect(member.picture.nodes.count == 2)
        #expect(member.core.counts == FleetCounts())
    }

    @Test func forgettingNeedsConnection() throws {
        var member = try Member()
        #expect(member.send(.forget(Member.name("other"))).contains(.settled(.forget(Member.name("other")), .lost)))
    }

    @Test func nodesAboveLimitAreCounted() throws {
        var roster = Roster(at: FleetInstant(time: .start, wall: .zero))
        let now = FleetInstant(time: .start, wall: .seconds(1))
        for number in 0..<Roster.limit {
            #expect(roster.take(Member.word(), of: Member.name("n\(number)"), isRetained: true, at: now) == .changed)
        }
        #expect(roster.take(Member.word(), of: Member.name("more"), isRetained: true, at: now) == .tooMany)
        #expect(roster.take(Member.word(epoch: 2), of: Member.name("n1"), isRetained: true, at: now) == .unchanged)
    }
}
