import Glibc
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import ReachableFleet

/// Messages that no member would publish.
@Suite struct MalformedMessageTests {
    /// `FLEET_MESSAGES` sets the number of messages, for longer runs.
    private static let count = variable("FLEET_MESSAGES") ?? 10_000

    private static let valid: [[UInt8]] =
        FleetNode.State.allCases.filter { $0 != .unknown }.map { state in
            WordCoding.payload(TestMember.word(state, epoch: 7, sequence: 3, reason: "noCarrier"))
        } + [WordCoding.payload(TriggerWord(sender: TestMember.name("desk"), sequence: 1, deadline: 1_700_000_500))]

    private static let pieces = [
        "null", "-1", "1e999", "18446744073709551616", "9007199254740991", "\"\"", "{}", "[", "\\u0000", "\u{1b}[2J", "é",
        "\"v\":2,",
        "\"epoch\":0,", "\"state\":\"unknown\"", "\u{0}",
    ].map { Array($0.utf8) }

    private func mutated(_ bytes: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let place = Int.random(in: 0...bytes.count, using: &generator)
            switch Int.random(in: 0..<7, using: &generator) {
            case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1 where place < bytes.count: bytes.remove(at: place)
            case 2: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
            case 3: bytes = Array(bytes.prefix(place))
            case 4: bytes.insert(contentsOf: Self.pieces.randomElement(using: &generator) ?? [], at: place)
            case 5: bytes.insert(contentsOf: bytes.suffix(Int.random(in: 0...bytes.count, using: &generator)), at: place)
            default:
                let end = min(bytes.count, place + Int.random(in: 0...20, using: &generator))
                bytes.replaceSubrange(place..<end, with: Self.pieces.randomElement(using: &generator) ?? [])
            }
        }
        return bytes
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func malformedMessagesChangeNoOtherNode(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var member = try TestMember()
        try member.join()
        for name in ["a", "b", "c"] { member.hear(TestMember.word(epoch: 5), of: name) }
        let others: Set = ["nas", "a", "c"]
        let before = member.picture.nodes.filter { others.contains($0.name.description) }
        let topics = ["reach/v1/site/b/status", "reach/v1/site/trigger/now", "reach/v1/site/b/dest", "reach/v1/site/b"]
        var refused = 0
        for number in 0..<Self.count / 4 {
            let payload = mutated(Self.valid.randomElement(using: &generator) ?? [], &generator)
            var topic = topics[[0, 0, 0, 1, 2, 3][Int.random(in: 0..<6, using: &generator)]]
            if Int.random(in: 0..<8, using: &generator) == 0 {
                topic = String(decoding: mutated(Array(topic.utf8), &generator), as: UTF8.self)
            }
            guard !others.contains(where: { topic == "reach/v1/site/\($0)/status" }) else { continue }
            let counts = member.core.counts
            member.send(.message(FleetMessage(topic: topic, payload: payload, isRetained: number.isMultiple(of: 9))))
            if member.core.counts != counts { refused += 1 }
            let after = member.picture.nodes.filter { others.contains($0.name.description) }
            try #require(after == before, "\(generator): message \(number), \(topic), \(payload)")
            // What was understood is a word of the contract.
            for node in member.picture.nodes {
                try #require(node.reason.map(FleetName.isValid) ?? true, "\(generator): message \(number)")
            }
            _ = member.takeEffects()
        }
        #expect(refused > Self.count / 8, "\(generator): most messages are refused, \(refused)")
        #expect(member.picture.isCurrent)
    }

    @Test(arguments: 1...2 as ClosedRange<UInt64>) func malformedMessagesOnOwnTopicCauseOneWordPerSecond(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var member = try TestMember()
        try member.join()
        var words = 0
        for _ in 0..<Self.count / 10 {
            member.hear(mutated(Self.valid.randomElement(using: &generator) ?? [], &generator))
            member.pass(.milliseconds(10))
            words += member.words.count
            if member.takeEffects().contains(.disconnect) {
                member.send(.disconnected)
                member.connect()
            }
        }
        #expect(words <= Self.count / 1000 + 1, "\(generator): \(words) words")
        member.pass(.seconds(2))
        try member.echo()
        #expect(member.core.announcer.session?.isOverwritten == false, "\(generator)")
    }
}
