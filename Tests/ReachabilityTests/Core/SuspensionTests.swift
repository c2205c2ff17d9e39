import Reachability
import Testing

@Suite struct SuspensionTests {
    @Test func onlyNewSuspensionsCount() {
        var suspension = Suspension(total: .seconds(40))
        #expect(suspension.note(total: .seconds(40)) == nil)
        #expect(suspension.note(total: .seconds(100)) == .seconds(60))
        #expect(suspension.note(total: .seconds(100)) == nil)
        #expect(suspension.note(total: .seconds(101)) == .seconds(1))
    }

    @Test func timeBetweenReadingsIsNoSuspension() {
        var suspension = Suspension(total: .zero)
        for step in 1...5 { #expect(suspension.note(total: .milliseconds(900) * step) == nil) }
        #expect(suspension.note(total: .zero) == nil)
        #expect(suspension.note(total: .milliseconds(4600)) == nil)
        #expect(suspension.note(total: .longest) != nil)
    }
}
