import ReachableRetry
import Testing

@testable import ReachableFleet

/// The rules of triggers.
@Suite struct TriggerTests {
    typealias Member = TestMember

    private func trigger(_ sequence: UInt64 = 1, sender: String = "desk", until: UInt64 = 1_700_000_200) -> TriggerWord {
        TriggerWord(sender: Member.name(sender), sequence: sequence, deadline: until)
    }

    private func joined(_ node: String = "nas") throws -> Member {
        var member = try Member(node)
        try member.join()
        return member
    }

    @Test func triggerActsOnce() throws {
        var member = try joined()
        for _ in 0..<3 { member.hear(trigger()) }
        member.pass(.seconds(10))
        member.hear(trigger())
        member.pass(.seconds(10))
        #expect(member.fired.map(\.sequence) == [1])
        #expect(member.core.counts.ignoredTriggers == 3)
    }

    @Test func triggersOfSendersAndNamesAreApart() throws {
        var member = try joined()
        member.hear(trigger(2))
        member.hear(trigger(1), name: "later")
        member.hear(trigger(1, sender: "phone"))
        member.hear(trigger(1))
        member.pass(.seconds(10))
        #expect(member.fired.count == 3)
        #expect(member.core.counts.ignoredTriggers == 1)
    }

    @Test func nodesSpreadOverTenSeconds() throws {
        var seconds = Array(repeating: 0, count: 11)
        for number in 0..<1000 {
            var member = try joined("kiosk-\(number)")
            member.hear(trigger())
            let time = try #require(member.core.inbox.pending.first).time - member.now
            #expect(time >= .zero && time < .seconds(10))
            seconds[Int(time / .seconds(1))] += 1
        }
        #expect(seconds.prefix(10).allSatisfy { (60...140).contains($0) }, "\(seconds)")
    }

    @Test func spreadEndsBeforeDeadline() throws {
        for number in 0..<100 {
            var member = try joined("kiosk-\(number)")
            member.hear(trigger(until: 1_700_000_103))
            member.pass(.seconds(2))
            #expect(member.fired.count == 1, "kiosk-\(number)")
        }
    }

    @Test func lateTriggerIsIgnored() throws {
        var member = try joined()
        member.hear(trigger(until: 1_700_000_101))
        member.pass(.seconds(20))
        #expect(member.fired.isEmpty && member.core.counts.ignoredTriggers == 1)
    }

    @Test func frozenNodeDoesNotActAfterDeadline() throws {
        var member = try joined()
        member.hear(trigger(until: 1_700_000_110))
        // No timer comes meanwhile.
        member.now = member.now + .seconds(60)
        member.send(.timer)
        #expect(member.fired.isEmpty && member.core.counts.ignoredTriggers == 1)
    }

    @Test func storedTriggerIsIgnored() throws {
        var member = try joined()
        member.hear(trigger(), isRetained: true)
        member.pass(.seconds(20))
        #expect(member.fired.isEmpty && member.core.counts.ignoredTriggers == 1)
    }

    @Test func triggerActsAfterLostConnection() throws {
        var member = try joined()
        member.hear(trigger())
        member.send(.disconnected)
        member.pass(.seconds(10))
        #expect(member.fired.count == 1)
    }

    @Test func repetitionsDoNotPostpone() throws {
        for number in 0..<20 {
            var member = try joined("kiosk-\(number)")
            var latest = BusTime.never
            for sequence in 1...10 as ClosedRange<UInt64> {
                member.hear(trigger(sequence))
                let time = try #require(member.core.inbox.pending.first).time
                #expect(time <= latest, "kiosk-\(number)")
                latest = time
            }
            member.pass(.seconds(10))
            #expect(member.fired.map(\.sequence) == [10])
        }
    }

    @Test func stoppedNodeDoesNotAct() throws {
        var member = try joined()
        member.hear(trigger())
        member.send(.stop)
        member.pass(.seconds(20))
        #expect(member.fired.isEmpty)
    }

    @Test func oldestSendersAreForgotten() throws {
        var member = try joined()
        for number in 0..<5000 {
            member.hear(trigger(sender: "desk\(number)", until: 1_700_010_000))
            member.pass(.milliseconds(20))
        }
        #expect(member.core.inbox.heard.count == TriggerInbox.limit)
        for number in 0..<5000 { member.hear(trigger(2, sender: "desk\(number)", until: 1_700_010_000)) }
        #expect(member.core.inbox.pending.count == TriggerInbox.limit)
    }

    // MARK: - Sending

    static let times: [(within: Duration, seconds: UInt64)] = [
        (.seconds(30), 131), (.zero, 102), (.seconds(-5), 102), (Duration(attoseconds: .max), 3701),
        (Duration(attoseconds: .min), 102),
    ]

    @Test(arguments: times)
    func triggerIsPublishedWithDeadline(within: Duration, seconds: UInt64) throws {
        var member = try joined()
        let effects = member.send(.trigger(Member.name("now"), within: within))
        guard case .publish(let message) = try #require(effects.first) else { throw FleetError(.notConnected, subject: "now") }
        #expect(message.topic == "reach/v1/site/trigger/now" && !message.isRetained)
        #expect(try WordCoding.trigger(message.payload) == trigger(1, sender: "run", until: 1_700_000_000 + seconds))
        member.send(.trigger(Member.name("now"), within: within))
        #expect(member.core.sentTriggers == 2)
    }

    @Test func ownTriggerEndsTheRequest() throws {
        var member = try joined()
        member.send(.trigger(Member.name("now"), within: .seconds(30)))
        member.hear(trigger(1), name: "now")
        member.hear(trigger(1, sender: "run"), name: "later")
        #expect(!member.has(.settled(.trigger(Member.name("now")), .shown)))
        member.hear(trigger(1, sender: "run"), name: "now")
        #expect(member.has(.settled(.trigger(Member.name("now")), .shown)))
        member.pass(.seconds(60))
        #expect(!member.has(.settled(.trigger(Member.name("now")), .hidden)))
    }

    @Test func triggerThatTheBrokerDropsIsHidden() throws {
        var member = try joined()
        member.send(.trigger(Member.name("now"), within: .seconds(30)))
        member.pass(.seconds(5))
        // Another one of the name waits for its own time.
        member.send(.trigger(Member.name("now"), within: .seconds(30)))
        member.pass(.milliseconds(9_999))
        #expect(!member.has(.settled(.trigger(Member.name("now")), .hidden)))
        member.pass(.milliseconds(1))
        #expect(member.has(.settled(.trigger(Member.name("now")), .hidden)) && member.core.asked.isEmpty)
    }

    @Test func lostConnectionEndsTheRequest() throws {
        var member = try joined()
        member.send(.trigger(Member.name("now"), within: .seconds(30)))
        #expect(member.send(.disconnected).contains(.settled(.trigger(Member.name("now")), .lost)))
        #expect(member.core.asked.isEmpty)
    }

    @Test func triggerNeedsConnection() throws {
        var member = try Member()
        #expect(
            member.send(.trigger(Member.name("now"), within: .seconds(1))).contains(.settled(.trigger(Member.name("now")), .lost)))
    }
}
