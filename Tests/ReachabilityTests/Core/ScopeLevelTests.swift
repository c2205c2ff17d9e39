import Reachability
import Testing

@Suite struct ScopeLevelTests {
    private func table(_ carrierChanges: UInt32 = 0) -> InterfaceTable {
        InterfaceTable([
            NetworkInterface(index: 2, name: "cable0", carrierChanges: carrierChanges), NetworkInterface(index: 3, name: "cable1"),
        ])
    }

    private func level(_ paths: NetworkPath...) -> ScopeLevel {
        var level = ScopeLevel()
        for path in paths { _ = level.observe(path, table(), resumed: false) }
        return level
    }

    @Test func epochStartsAtOneIfSatisfied() {
        #expect(level().epoch == 0)
        #expect(level(.offline()).epoch == 0)
        #expect(level(.online()).epoch == 1)
    }

    @Test func epochGrowsWhenWaitingMakesNoSense() {
        #expect(level(.offline(), .online()).epoch == 1)
        #expect(level(.online(), .offline(), .online()).epoch == 2)
        #expect(level(.online(), .online("cable1", index: 3)).epoch == 2)
        #expect(level(.online(), .online(source: "192.0.2.11")).epoch == 2)
        #expect(level(.online(), .online("cable1", index: 3, source: "192.0.2.11")).epoch == 2)
    }

    @Test func epochStaysWithoutAGain() {
        #expect(level(.online(), .offline()).epoch == 1)
        #expect(level(.offline(), .offline(.noRoute)).epoch == 0)
        #expect(level(.online(), .online()).epoch == 1)
        #expect(level(.online(), .online(gateway: "192.0.2.2")).epoch == 1)
        #expect(level(.online(metric: 1), .online(metric: 2)).epoch == 1)
        #expect(level(.online(), .online("renamed0")).epoch == 1)
        #expect(level(.online(), .online(ipv6: true)).epoch == 1)
        #expect(level(.online(ipv6: true), .online()).epoch == 1)
    }

    @Test func unseenCarrierChangeIsABlink() {
        var level = level(.online())
        let change = level.observe(.online(), table(2), resumed: false)
        #expect(change.blinked && change.conditionChanged && !change.lost && level.epoch == 2)
        let repeated = level.observe(.online(), table(2), resumed: false)
        #expect(!repeated.blinked && level.epoch == 2)
    }

    @Test func carrierChangeDuringAnOutageIsNoBlink() {
        var level = level(.online(), .offline())
        let change = level.observe(.online(), table(2), resumed: false)
        #expect(!change.blinked && level.epoch == 2)
    }

    @Test func resumeGrowsTheEpochByOne() {
        var level = level(.online())
        _ = level.observe(.online("cable1", index: 3), table(2), resumed: true)
        #expect(level.epoch == 2)
    }

    @Test func onlyEpochAndLevelChangeTheCondition() {
        var level = level(.online())
        #expect(!level.observe(.online(gateway: "192.0.2.9"), table(), resumed: false).conditionChanged)
        #expect(level.observe(.offline(), table(), resumed: false).conditionChanged)
        #expect(!level.observe(.offline(.noRoute), table(), resumed: false).conditionChanged)
    }
}
