import Testing

@testable import ReachableRetry

/// The gates that are kept without jobs.
struct GateTableTests {
    @Test func idleGateIsKept() {
        var table = GateTable()
        let gate = table.use(0, "a")
        table[gate].noteAnswer(in: 3)
        table.release(gate)
        #expect(table.use(0, "b") != gate && table.use(1, "a") != gate && table.use(0, nil) != gate)
        #expect(table.use(0, "a") == gate && table[gate].uses == 1)
        #expect(table[gate].answerEpoch == 3)
        #expect(table.destination(gate) == "a" && table.count == 4)
    }

    @Test func scopeRemovesItsGates() {
        var table = GateTable()
        let gates = ["a", "b", nil].map { table.use(0, $0) }
        let other = table.use(1, "a")
        for gate in gates { table.release(gate) }
        table.removeAll(of: 0)
        #expect(table.count == 1)
        // The indices are reused without the earlier gates' state.
        let new = table.use(0, "a")
        #expect(gates.contains(new) && table[new].uses == 1 && table.destination(new) == "a")
        #expect(table.use(1, "a") == other && table.count == 2)
    }

    @Test func numberOfKeptIdleGatesIsLimited() {
        var table = GateTable()
        let used = table.use(0, "used")
        for number in 0..<GateTable.mostIdle { table.release(table.use(ConditionIndex(number % 7), "\(number)")) }
        #expect(table.count == GateTable.mostIdle + 1)
        table.release(table.use(0, "one more"))
        #expect(table.count == 1 && table.use(0, "used") == used)
        for number in 0..<GateTable.mostIdle { table.release(table.use(0, "\(number)")) }
        #expect(table.count == GateTable.mostIdle + 1, "the count of gates without jobs restarted")
    }
}
