import ReachableRetry
import Testing

@testable import ReachableFleet

/// A core without a node.
@Suite struct ObserverTests {
    private let start = BusTime.start + .seconds(100)

    private func instant(_ milliseconds: Int64) -> FleetInstant {
        FleetInstant(time: start + .milliseconds(milliseconds), wall: .seconds(1_700_000_000) + .milliseconds(milliseconds))
    }

    private func observer() throws -> FleetCore {
        try FleetCore(site: TestMember.site, node: nil, run: TestMember.name("run"), storedEpoch: 0, at: instant(0))
    }

    private func word(of name: String) -> FleetCore.Event {
        let topic = FleetTopic.status(TestMember.name(name)).text(site: TestMember.site)
        return .message(FleetMessage(topic: topic, payload: WordCoding.payload(TestMember.word()), isRetained: true))
    }

    @Test func observerHasNoWillAndStoresNothing() throws {
        var core = try observer()
        let effects = core.handle(.connecting, at: instant(0))
        let isWithoutWill = effects.contains { if case .connect(let connection) = $0 { connection.will == nil } else { false } }
        #expect(isWithoutWill)
        #expect(!effects.contains { if case .store = $0 { true } else { false } })
    }

    @Test func eachStoredWordExtendsTheWait() throws {
        var core = try observer()
        for event in [FleetCore.Event.connecting, .connected, .subscribed] { _ = core.handle(event, at: instant(0)) }
        var time: Int64 = 0
        for name in ["a", "b", "c"] {
            time += 499
            _ = core.handle(.timer, at: instant(time))
            #expect(!core.roster.isCurrent)
            _ = core.handle(word(of: name), at: instant(time))
        }
        _ = core.handle(.timer, at: instant(time + 499))
        #expect(!core.roster.isCurrent)
        _ = core.handle(.timer, at: instant(time + 500))
        #expect(core.roster.isCurrent)
    }

    @Test func waitForStoredWordsHasALimit() throws {
        var core = try observer()
        for event in [FleetCore.Event.connecting, .connected, .subscribed] { _ = core.handle(event, at: instant(0)) }
        for number in 1..<100 { _ = core.handle(word(of: "n\(number)"), at: instant(Int64(number) * 300)) }
        #expect(!core.roster.isCurrent)
        _ = core.handle(word(of: "n100"), at: instant(30_000))
        #expect(core.roster.isCurrent)
    }

    @Test func observerPublishesNoWord() throws {
        var core = try observer()
        var effects: [FleetCore.Effect] = []
        for event in [FleetCore.Event.connecting, .connected, .subscribed, .verdict(.offline, reason: nil)] {
            effects += core.handle(event, at: instant(0))
        }
        for second: Int64 in 1...100 { effects += core.handle(.timer, at: instant(second * 1_000)) }
        effects += core.handle(.stop, at: instant(101_000))
        #expect(!effects.contains { if case .publish = $0 { true } else { false } })
        #expect(effects.last == .wake(at: .never) || effects.contains(.disconnect))
    }
}
