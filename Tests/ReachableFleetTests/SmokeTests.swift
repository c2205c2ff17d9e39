import ReachableRetry
import Testing

@testable import ReachableFleet

@Suite struct SmokeTests {
    @Test func threeNodesSeeEachOther() throws {
        var world = FleetWorld(["a", "b", "c"])
        for index in 0..<3 { try world.start(index) }
        try world.settle()
        try world.checkSettled()
    }
}
