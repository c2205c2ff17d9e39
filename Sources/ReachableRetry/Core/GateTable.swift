/// The gates, by scope and destination.
struct GateTable: Sendable {
    /// How many gates without jobs are remembered; their memory matters for half a minute only.
    static let mostIdle = 1024

    private struct Name: Hashable {
        var scope: ConditionIndex
        var destination: String?
    }

    private var gates: [GateState?] = []
    private var names: [Name] = []
    private var indices: [Name: Int32] = [:]
    private var free: [Int32] = []
    private var idle = 0

    var count: Int { indices.count }

    /// The gate for a job; it is kept until ``release(_:)``.
    mutating func use(_ scope: ConditionIndex, _ destination: String?) -> Int32 {
        let name = Name(scope: scope, destination: destination)
        if let index = indices[name] {
            if self[index].uses == 0 { idle -= 1 }
            self[index].uses += 1
            return index
        }
        var gate = GateState()
        gate.uses = 1
        let index: Int32
        if let place = free.popLast() {
            index = place
            gates[Int(place)] = gate
            names[Int(place)] = name
        } else {
            index = Int32(gates.count)
            gates.append(gate)
            names.append(name)
        }
        indices[name] = index
        return index
    }

    mutating func release(_ index: Int32) {
        self[index].uses -= 1
        guard self[index].uses == 0 else { return }
        idle += 1
        if idle > Self.mostIdle { removeAll { $0.uses == 0 } }
    }

    mutating func removeAll(of scope: ConditionIndex) {
        for (name, index) in indices where name.scope == scope { remove(index) }
    }

    private mutating func removeAll(where isUnwanted: (GateState) -> Bool) {
        for index in indices.values where isUnwanted(self[index]) { remove(index) }
    }

    private mutating func remove(_ index: Int32) {
        if self[index].uses == 0 { idle -= 1 }
        indices[names[Int(index)]] = nil
        gates[Int(index)] = nil
        free.append(index)
    }

    func destination(_ index: Int32) -> String? { names[Int(index)].destination }

    /// A gate that exists.
    subscript(index: Int32) -> GateState {
        get { gates[Int(index)] ?? GateState() }
        set { gates[Int(index)] = newValue }
    }
}
