import Testing

@testable import ReachabilityTesting

/// The promises of MQTT 3.1.1 that the simulated broker keeps, and those that it breaks where a test says so.
@Suite struct SimulatedBrokerTests {
    typealias Message = SimulatedBroker.Message

    private func message(_ topic: String, _ text: String = "x", isRetained: Bool = false, qos: Int = 1) -> Message {
        Message(topic: topic, payload: Array(text.utf8), isRetained: isRetained, qos: qos)
    }

    /// A broker with two clients; `b` has subscribed to everything.
    private func makeBroker() -> SimulatedBroker {
        var broker = SimulatedBroker()
        broker.connect("a", will: message("a", "will", isRetained: true))
        broker.connect("b")
        broker.subscribe("b", to: "#")
        return broker
    }

    private func texts(_ broker: inout SimulatedBroker, _ client: String = "b") -> [String] {
        var texts: [String] = []
        while let message = broker.nextMessage(for: client) { texts.append(String(decoding: message.payload, as: UTF8.self)) }
        return texts
    }

    static let filters: [(topic: String, filter: String, matches: Bool)] = [
        ("a/b", "a/b", true), ("a/b", "a/+", true), ("a/b", "+/+", true), ("a/b", "+", false), ("a/b", "#", true),
        ("a/b", "a/#", true), ("a", "a/#", true), ("ab", "a/#", false), ("a/b/c", "a/+", false), ("a/b/c", "a/+/c", true),
        ("a", "a/b", false), ("/a", "+/a", true), ("/a", "/+", true), ("$SYS/x", "#", false), ("$SYS/x", "+/x", false),
        ("$SYS/x", "$SYS/#", true),
    ]

    @Test(arguments: filters.indices) func filtersMatchLevels(index: Int) {
        let (topic, filter, matches) = Self.filters[index]
        #expect(SimulatedBroker.matches(topic, filter) == matches, "\(topic) \(filter)")
    }

    @Test func retainedFlagIsForNewSubscriptions() {
        var broker = makeBroker()
        broker.publish(message("t", isRetained: true), from: "a")
        #expect(broker.waitingMessages(for: "b").map(\.isRetained) == [false])
        for _ in 0..<2 { broker.subscribe("a", to: "t") }
        #expect(broker.waitingMessages(for: "a").map(\.isRetained) == [true, true])
    }

    @Test func emptyPayloadRemovesRetainedMessage() {
        var broker = makeBroker()
        broker.publish(message("t", isRetained: true), from: "a")
        broker.publish(message("t", "", isRetained: true), from: "a")
        #expect(broker.retained.isEmpty)
        let got = texts(&broker)
        #expect(got == ["x", ""])
    }

    @Test func messagesOfOneTopicAreInOrder() {
        var broker = makeBroker()
        for text in ["1", "2"] { broker.publish(message("t", text), from: "a") }
        broker.publish(message("u", "3"), from: "a")
        #expect(broker.waitingTopics(for: "b") == ["t", "u"])
        let overtaking = broker.nextMessage(for: "b", from: "u")
        #expect(overtaking?.payload == Array("3".utf8))
        let got = texts(&broker)
        #expect(got == ["1", "2"])
    }

    @Test func overlappingSubscriptionsGetOneMessage() {
        var broker = makeBroker()
        broker.subscribe("b", to: "t", qos: 0)
        broker.publish(message("t"), from: "a")
        #expect(broker.waitingMessages(for: "b").map(\.qos) == [1])
    }

    @Test func messageOfQoS1MayBeRepeated() {
        var broker = makeBroker()
        broker.publish(message("t", qos: 0), from: "a")
        _ = broker.nextMessage(for: "b")
        #expect(broker.repeatMessage(for: "b") == nil)
        broker.publish(message("t"), from: "a")
        let delivered = broker.nextMessage(for: "b")
        #expect(broker.repeatMessage(for: "b") == delivered)
    }

    // MARK: - Wills

    @Test func lostConnectionPublishesWill() {
        var broker = makeBroker()
        broker.loseConnection("a")
        var got = texts(&broker)
        #expect(got == ["will"])
        #expect(broker.retained["a"]?.payload == Array("will".utf8))
        broker.loseConnection("a")
        got = texts(&broker)
        #expect(got.isEmpty)
    }

    @Test func orderlyEndDropsWill() {
        var broker = makeBroker()
        broker.disconnect("a")
        let got = texts(&broker)
        #expect(got.isEmpty && !broker.isConnected("a"))
    }

    @Test(arguments: [
        (SimulatedBroker.TakeoverWill.afterFirstMessage, ["first", "will", "second"]), (.atOnce, ["will", "first", "second"]),
    ])
    func takeoverPublishesOldWill(time: SimulatedBroker.TakeoverWill, expected: [String]) {
        var broker = makeBroker()
        broker.takeoverWill = time
        broker.connect("a", will: message("a", "new will"))
        for text in ["first", "second"] { broker.publish(message("a", text, isRetained: true), from: "a") }
        let got = texts(&broker)
        #expect(got == expected)
    }

    @Test func endOfTakeoverPublishesBothWills() {
        var broker = makeBroker()
        broker.connect("a", will: message("a", "new will"))
        broker.loseConnection("a")
        let got = texts(&broker)
        #expect(got == ["will", "new will"])
    }

    @Test func heldWillsWait() {
        var broker = makeBroker()
        broker.publishesWillsByItself = false
        broker.loseConnection("a")
        var got = texts(&broker)
        #expect(got.isEmpty && broker.heldWills.count == 1)
        broker.publishHeldWills()
        got = texts(&broker)
        #expect(got == ["will"] && broker.heldWills.isEmpty)
        broker.publishHeldWills(-1)
    }

    // MARK: - Sessions

    @Test func cleanSessionsEndWithConnection() {
        var broker = makeBroker()
        broker.loseConnection("b")
        broker.publish(message("t"), from: "a")
        let continues = broker.connect("b")
        #expect(!continues)
        let got = texts(&broker)
        #expect(got.isEmpty)
    }

    @Test func storedSessionsQueueQoS1() {
        var broker = makeBroker()
        broker.connect("c", isClean: false)
        broker.subscribe("c", to: "t")
        broker.loseConnection("c")
        broker.publish(message("t", "0", qos: 0), from: "a")
        broker.publish(message("t", "1"), from: "a")
        let early = broker.nextMessage(for: "c")
        let continues = broker.connect("c", isClean: false)
        #expect(early == nil && continues)
        var got = texts(&broker, "c")
        #expect(got == ["1"])
        broker.connect("c")
        broker.publish(message("t", "2"), from: "a")
        got = texts(&broker, "c")
        #expect(got.isEmpty)
    }

    @Test(arguments: [true, false]) func restartLosesConnectionsAndPublishesNoWill(keepsStore: Bool) {
        var broker = makeBroker()
        broker.publish(message("t", isRetained: true), from: "a")
        broker.connect("c", isClean: false)
        broker.restart(keepingStore: keepsStore)
        #expect(!broker.isConnected("a") && !broker.isConnected("b"))
        #expect(broker.retained.keys.sorted() == (keepsStore ? ["t"] : []))
        let continues = broker.connect("c", isClean: false)
        #expect(continues == keepsStore)
        broker.connect("b")
        broker.subscribe("b", to: "#")
        let got = texts(&broker)
        #expect(got == (keepsStore ? ["x"] : []))
    }

    @Test func strangersPublishNothing() {
        var broker = makeBroker()
        broker.publish(message("t"), from: "stranger")
        broker.subscribe("stranger", to: "#")
        let got = texts(&broker)
        #expect(got.isEmpty && broker.nextMessage(for: "stranger") == nil)
    }
}
