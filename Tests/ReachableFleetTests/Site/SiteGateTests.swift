import ReachableRetry
import Testing

@testable import ReachableFleet

/// One member whose bus waits for a server that other nodes wait for, too.
@Suite struct SiteGateTests {
    private static let hash = DestinationHash("server", site: TestMember.site)

    /// A member with a current picture, and other nodes that are online.
    private struct Bench {
        var member: TestMember
        var advice: [SiteAdvice] = []
        var words: [DestinationWord?] = []

        init(_ node: String = "nas", others: [String] = ["a", "b", "c"]) throws {
            member = try TestMember(node)
            try member.join()
            for other in others { member.hear(TestMember.word(), of: other) }
            for other in others { say(.waiting, other) }
            _ = member.takeEffects()
        }

        mutating func take(_ effects: [FleetCore.Effect]) {
            for case .advise(let advice, "server") in effects { self.advice.append(advice) }
            let topic = FleetTopic.destination(member.node, SiteGateTests.hash).text(site: TestMember.site)
            for case .publish(let message) in effects where message.topic == topic {
                words.append(message.payload.isEmpty ? nil : try? WordCoding.destination(message.payload))
            }
        }

        mutating func report(_ report: SiteReport, bus: Int = 0) {
            member.send(.destination("server", report, bus: bus))
            take(member.takeEffects())
        }

        mutating func pass(_ time: Duration) {
            member.pass(time)
            take(member.takeEffects())
        }

        mutating func say(
            _ finding: DestinationWord.Finding, _ other: String, waiting: UInt64 = 5, until: UInt64? = nil, took: UInt64? = nil,
            isRetained: Bool = false
        ) {
            let word = DestinationWord(
                finding: finding, time: member.instant.seconds, until: until, waiting: waiting, took: took)
            hear(WordCoding.payload(word), other, isRetained: isRetained)
        }

        mutating func hear(_ payload: [UInt8], _ other: String, isRetained: Bool = false) {
            let topic = FleetTopic.destination(TestMember.name(other), SiteGateTests.hash).text(site: TestMember.site)
            member.send(.message(FleetMessage(topic: topic, payload: payload, isRetained: isRetained)))
            take(member.takeEffects())
        }

        mutating func edge() {
            report(.waiting(5))
            report(.edge)
        }

        /// The order in which nodes try after an edge now.
        func order(_ names: [String]) -> [String] {
            let edge = member.instant.seconds / SiteGate.edgeLength
            return names.sorted {
                SiteGateTests.hash.order(of: TestMember.name($0), edge: edge)
                    < SiteGateTests.hash.order(of: TestMember.name($1), edge: edge)
            }
        }
    }

    private static let names = ["nas", "a", "b", "c"]

    @Test func oneOfTheWaitingNodesTriesFirst() throws {
        var canaries = 0
        for node in Self.names {
            var bench = try Bench(node, others: Self.names.filter { $0 != node })
            let isFirst = bench.order(Self.names)[0] == node
            bench.edge()
            #expect(bench.advice == [isFirst ? .free(after: .zero, share: 1) : .hold(.seconds(5))])
            if isFirst { canaries += 1 }
        }
        #expect(canaries == 1)
    }

    @Test func anotherNodeTriesFirstAfterAnotherEdge() throws {
        let firsts = (0..<64).map { edge in
            Self.names.min { left, right in
                Self.hash.order(of: TestMember.name(left), edge: edge) < Self.hash.order(of: TestMember.name(right), edge: edge)
            }
        }
        #expect(Set(firsts).count == Self.names.count)
    }

    /// Returns a bench whose member is not the first, and the name of the first.
    private func held() throws -> (Bench, canary: String) {
        for node in Self.names {
            var bench = try Bench(node, others: Self.names.filter { $0 != node })
            let first = bench.order(Self.names)[0]
            guard first != node else { continue }
            bench.edge()
            guard bench.advice == [.hold(.seconds(5))] else { continue }
            bench.advice = []
            return (bench, first)
        }
        throw FleetError(.notConnected, subject: "a node that waits")
    }

    @Test func answerOfAnotherFreesInTurn() throws {
        var (bench, canary) = try held()
        let rank = bench.order(Self.names).firstIndex(of: bench.member.node.description) ?? 0
        bench.pass(.milliseconds(100))
        bench.say(.answering, canary, took: 20)
        #expect(bench.advice == [.free(after: .milliseconds(20) * rank, share: 1)])
    }

    @Test func silentCanaryIsFollowedAfterFiveSeconds() throws {
        var (bench, _) = try held()
        bench.pass(.milliseconds(4999))
        #expect(bench.advice.isEmpty)
        bench.pass(.milliseconds(1))
        #expect(bench.advice.count == 1)
        if case .free = bench.advice.last {} else { Issue.record("\(bench.advice)") }
    }

    @Test func lostCanaryIsFollowedAtOnce() throws {
        var (bench, canary) = try held()
        bench.member.hear(TestMember.word(.lost, epoch: 1, sequence: 1), of: canary)
        bench.take(bench.member.takeEffects())
        #expect(bench.advice.count == 1, "another one is first")
    }

    /// It was written before the edge, and the broker's cable was the same.
    @Test func lateWordOfTheLossFreesNobody() throws {
        var (bench, canary) = try held()
        func say(_ state: FleetNode.State, _ sequence: UInt64) {
            for other in bench.order(Self.names) where other != bench.member.node.description {
                bench.member.hear(TestMember.word(state, sequence: sequence), of: other)
            }
            bench.take(bench.member.takeEffects())
        }
        bench.pass(.milliseconds(200))
        say(.offline, 2)
        bench.pass(.milliseconds(200))
        say(.online, 3)
        bench.pass(.seconds(4))
        #expect(bench.advice.allSatisfy { $0 == .hold(.seconds(3)) }, "\(bench.advice)")
        // One that stays away is followed.
        (bench, canary) = try held()
        bench.member.hear(TestMember.word(.offline, sequence: 2), of: canary)
        bench.take(bench.member.takeEffects())
        #expect(bench.advice.isEmpty)
        bench.pass(.milliseconds(1999))
        #expect(bench.advice.isEmpty)
        bench.pass(.milliseconds(1))
        #expect(bench.advice.count == 1, "another one is first")
    }

    @Test func wordsOfNodesThatAreGoneDoNotCount() throws {
        var (bench, _) = try held()
        bench.say(.answering, "stranger", took: 1)
        #expect(bench.advice.isEmpty)
        bench.member.hear(TestMember.word(), of: "stranger")
        bench.take(bench.member.takeEffects())
        #expect(bench.advice.count == 1, "it counts when the node is online")
    }

    @Test func oldAnswersDoNotCount() throws {
        var bench = try Bench()
        bench.say(.answering, "a", took: 1)
        bench.pass(.seconds(30))
        bench.edge()
        #expect(bench.advice != [.free(after: .zero, share: 2)] && bench.advice.count == 1)
        if case .free(let time, _) = bench.advice.last { #expect(time == .zero, "as canary only") }
    }

    @Test func pictureIsAwaited() throws {
        var member = try TestMember()
        member.send(.destination("server", .waiting(1), bus: 0))
        member.send(.destination("server", .edge, bus: 0))
        member.pass(.milliseconds(899))
        #expect(!member.has(.advise(.free(after: .zero, share: 1), destination: "server")))
        member.pass(.milliseconds(1))
        #expect(member.has(.advise(.free(after: .zero, share: 1), destination: "server")))
    }

    /// The broker is behind the same network: machines come back one after the other.
    @Test func aPictureThatComesAfterTheEdgeIsNotComplete() throws {
        for node in Self.names {
            var bench = try Bench(node, others: [])
            bench.report(.waiting(5))
            bench.member.send(.disconnected)
            bench.pass(.seconds(10))
            bench.report(.edge)
            bench.pass(.milliseconds(300))
            bench.member.connect()
            bench.member.hear(TestMember.word(.lost), of: node, isRetained: true)
            try bench.member.echo()
            bench.take(bench.member.takeEffects())
            #expect(bench.advice.isEmpty)
            let others = Self.names.filter { $0 != node }
            for other in others { bench.member.hear(TestMember.word(), of: other) }
            for other in others { bench.say(.waiting, other) }
            bench.pass(.milliseconds(600))
            let isFirst = bench.order(Self.names)[0] == node
            #expect(bench.advice == [isFirst ? .free(after: .zero, share: 1) : .hold(.milliseconds(4100))])
        }
    }

    @Test func offlineNodesHaveTwoSecondsToComeBack() throws {
        var bench = try Bench(others: ["a"])
        bench.member.hear(TestMember.word(.offline, sequence: 2), of: "a")
        bench.edge()
        #expect(bench.advice.isEmpty)
        bench.member.hear(TestMember.word(.online, sequence: 3), of: "a")
        bench.take(bench.member.takeEffects())
        #expect(bench.advice.count == 1)
        for names in [["nas", "a"], ["a", "nas"]] {
            var other = try Bench(names[0], others: [names[1]])
            let isFirst = other.order(names)[0] == names[0]
            other.member.hear(TestMember.word(.offline, sequence: 2), of: names[1])
            other.edge()
            other.pass(.milliseconds(900))
            #expect(other.advice == [isFirst ? .free(after: .zero, share: 1) : .hold(.milliseconds(4100))])
            other.pass(.milliseconds(1100))
            #expect(other.advice.last == .free(after: .zero, share: 1))
        }
    }

    @Test func lostBrokerEndsTheHold() throws {
        var (bench, _) = try held()
        bench.member.send(.disconnected)
        bench.take(bench.member.takeEffects())
        #expect(bench.advice == [.free(after: .zero, share: 1)])
    }

    @Test func overloadHoldsUntilItsEndAndForFiveSecondsAtMost() throws {
        var (bench, canary) = try held()
        let now = bench.member.instant.seconds
        bench.say(.overloaded, canary, until: now + 3)
        #expect(bench.advice == [.hold(.seconds(3))])
        bench.advice = []
        bench.say(.overloaded, canary, until: WordCoding.largestNumber)
        #expect(bench.advice == [.hold(.seconds(5))])
        bench.pass(.seconds(5))
        if case .free = bench.advice.last {} else { Issue.record("\(bench.advice)") }
    }

    @Test func firstAnswerIsToldAtOnceAndWithoutFurtherJobs() throws {
        var bench = try Bench()
        bench.report(.waiting(1))
        bench.report(.edge)
        bench.report(.answered(after: .milliseconds(30)))
        bench.report(.waiting(0))
        #expect(bench.words.map { $0?.finding } == [.waiting, .answering])
        bench.pass(.seconds(1))
        #expect(bench.words.count == 3 && bench.words.last == .some(nil) && bench.member.core.sites.gates.isEmpty)
        // The same if both come before the broker hears this node.
        var other = try Bench()
        other.report(.waiting(1))
        other.report(.edge)
        other.member.send(.destination("server", .waiting(0), bus: 0))
        other.report(.answered(after: .milliseconds(30)))
        #expect(other.words.last??.waiting == 0)
        other.pass(.seconds(1))
        #expect(other.words.last == .some(nil))
    }

    @Test func canaryThatEndsWithoutAnAnswerIsFollowedAtOnce() throws {
        var (bench, canary) = try held()
        bench.hear([], canary)
        #expect(bench.advice.count == 1, "another one is first")
    }

    @Test func shareFollowsFromTheNumberOfMachines() throws {
        let others = (0..<159).map { "n\($0)" }
        var bench = try Bench(others: others)
        // One machine counts once, whatever it says.
        bench.say(.waiting, "n0", waiting: 1_000_000)
        bench.edge()
        bench.report(.answered(after: .milliseconds(10)))
        #expect(bench.advice.last == .share(4))
        // 41 machines are left, and then 40.
        for other in others.prefix(119) { bench.hear([], other) }
        bench.pass(.seconds(2))
        #expect(bench.advice.last == .share(2))
        bench.hear([], others[119])
        bench.pass(.seconds(2))
        #expect(bench.advice.last == .share(1))
    }

    @Test func shareOutlivesTheBroker() throws {
        let others = (0..<160).map { "n\($0)" }
        var bench = try Bench(others: others)
        bench.report(.waiting(5))
        // It will not come back.
        bench.member.hear(TestMember.word(.lost, sequence: 2), of: others[159])
        bench.member.send(.disconnected)
        bench.edge()
        bench.pass(.milliseconds(900))
        #expect(bench.advice.last == .free(after: .zero, share: 4))
        // The others end in the meantime, whether it hears of that or not.
        bench.report(.answered(after: .milliseconds(10)))
        #expect(bench.advice.last == .free(after: .zero, share: 4))
        bench.pass(.seconds(10))
        #expect(bench.advice.last == .share(2))
        bench.pass(.seconds(10))
        #expect(bench.advice.last == .share(1))
    }

    @Test func shareOfABacklogEndsWithIt() throws {
        var bench = try Bench(others: (0..<159).map { "n\($0)" })
        bench.report(.waiting(5))
        bench.member.send(.disconnected)
        bench.report(.waiting(0))
        bench.edge()
        bench.pass(.milliseconds(900))
        #expect(bench.advice.last == .free(after: .zero, share: 1))
    }

    @Test func wordsAreRareAndRemovedInTheEnd() throws {
        var bench = try Bench()
        bench.report(.waiting(1))
        for count in 2...9 { bench.report(.waiting(count)) }
        #expect(bench.words.map { $0?.waiting } == [1])
        bench.pass(.seconds(1))
        #expect(bench.words.map { $0?.waiting } == [1, 9])
        bench.report(.waiting(10))
        bench.pass(.seconds(10))
        #expect(bench.words.count == 2, "little has changed")
        bench.report(.waiting(0))
        bench.pass(.seconds(1))
        #expect(bench.words.count == 3 && bench.words.last == .some(nil))
        #expect(bench.member.core.sites.gates.isEmpty)
    }

    @Test func jobsOfTwoBusesAreOneWord() throws {
        var bench = try Bench()
        bench.report(.waiting(1), bus: 1)
        bench.report(.waiting(2), bus: 2)
        bench.pass(.seconds(1))
        #expect(bench.words.last??.waiting == 3)
        bench.member.send(.busEnded(1))
        bench.member.send(.busEnded(2))
        bench.pass(.seconds(1))
        #expect(bench.words.last == .some(nil))
    }

    @Test func wordsOfAnEarlierRunAreRemoved() throws {
        var bench = try Bench()
        bench.say(.answering, "nas", isRetained: true)
        #expect(bench.words == [nil])
    }

    @Test func endInOrderRemovesWords() throws {
        var bench = try Bench()
        bench.report(.waiting(1))
        bench.member.send(.stop)
        bench.take(bench.member.takeEffects())
        #expect(bench.words.count == 2 && bench.words.last == .some(nil))
    }

    @Test func firstAnswerIsTold() throws {
        var bench = try Bench()
        bench.edge()
        bench.pass(.seconds(1))
        bench.report(.answered(after: .milliseconds(30)))
        bench.pass(.seconds(1))
        #expect(bench.words.last??.finding == .answering && bench.words.last??.took == 30)
        // A site that knows it does not need it from each machine.
        var other = try Bench()
        other.edge()
        other.pass(.seconds(1))
        other.say(.answering, "b", took: 1)
        let count = other.words.count
        other.report(.answered(after: .milliseconds(30)))
        other.pass(.seconds(5))
        #expect(other.words.count == count)
    }

    @Test(arguments: [
        "", "{", #"{"v":1}"#, #"{"v":1,"state":"fine","at":1,"waiting":1}"#, #"{"v":1,"state":"waiting","at":-1,"waiting":1}"#,
    ])
    func malformedWordsAreCounted(text: String) throws {
        var bench = try Bench()
        bench.hear(Array(text.utf8), "a")
        #expect(bench.member.core.counts.malformed == (text.isEmpty ? 0 : 1))
        bench.hear(Array(#"{"v":2,"state":7}"#.utf8), "a")
        #expect(bench.member.core.counts.foreignVersion == 1)
        bench.hear([UInt8](repeating: 32, count: 1025), "a")
        #expect(bench.member.core.counts.oversized == 1)
    }

    @Test func wordsAndTopicsAreStable() throws {
        let largest = WordCoding.largestNumber
        let word = DestinationWord(finding: .overloaded, time: largest, until: largest, waiting: largest, took: largest)
        #expect(WordCoding.payload(word).count <= WordCoding.largest)
        #expect(try WordCoding.destination(WordCoding.payload(word)) == word)
        let small = DestinationWord(finding: .waiting, time: 1_700_000_000, waiting: 5)
        let text = #"{"at":1700000000,"state":"waiting","v":1,"waiting":5}"#
        #expect(String(decoding: WordCoding.payload(small), as: UTF8.self) == text)
        let site = TestMember.site
        let topic = FleetTopic.destination(TestMember.name("nas"), Self.hash)
        #expect(FleetTopic(topic.text(site: site), site: site) == topic)
        #expect(Self.hash.text.count == 16 && !topic.text(site: site).contains("server"))
        #expect(Self.hash != DestinationHash("server", site: TestMember.name("other")))
        for bad in ["0", "00000000000000000", "000000000000000G", "000000000000000F", "+000000000000001"] {
            #expect(FleetTopic("reach/v1/site/nas/dest/\(bad)", site: site) == nil)
        }
        #expect(FleetTopic("reach/v1/site/trigger/dest/0000000000000001", site: site) == nil)
    }

    /// Computed from the definitions of FNV-1a and SplitMix64 by another program.
    @Test func hashIsTheSameInAllBuilds() {
        #expect(Self.hash.text == "e8d724faf8cb6c59")
    }
}
