/// The gates, by scope and destination.
struct GateTable: Sendable {
    /// How many gates without jobs are remembered; their memory matters for half a minute only.
    static let mostIdle = 1024

    private struct Name {
        var scope: ConditionIndex
        var destination: String?
    }

    private var gates: [GateState] = []
    private var names: [Name] = []
    /// By scope first: a scope leaves with its gates, however many others there are.
    private var indices: [ConditionIndex: [String?: Int32]] = [:]
    private var free: [Int32] = []
    private var idle = 0

    var count: Int { gates.count - free.count }

    /// The gate for a job; it is kept until ``release(_:)``.
    mutating func use(_ scope: ConditionIndex, _ destination: String?) -> Int32 {
        if let index = indices[scope]?[destination] {
            if self[index].uses == 0 { idle -= 1 }
            self[index].uses += 1
            return index
        }
        let name = Name(scope: scope, destination: destination)
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
        indices[scope, default: [:]][destination] = index
        return index
    }

    mutating func release(_ index: Int32) {
        self[index].uses -= 1
        guard self[index].uses == 0 else { return }
        idle += 1
        if idle > Self.mostIdle { removeIdle() }
    }

    mutating func removeAll(of scope: ConditionIndex) {
        for index in (indices.removeValue(forKey: scope) ?? [:]).values { vacate(index) }
    }

    private mutating func removeIdle() {
        for (name, index) in indices.flatMap({ scope, gates in gates.map { (Name(scope: scope, destination: $0), $1) } })
        where self[index].uses == 0 {
            indices[name.scope]?.removeValue(forKey: name.destination)
            if indices[name.scope]?.isEmpty == true { indices[name.scope] = nil }
            vacate(index)
        }
    }

    private mutating func vacate(_ index: Int32) {
        if self[index].uses == 0 { idle -= 1 }
        gates[Int(index)] = GateState()
        free.append(index)
    }

    func destination(_ index: Int32) -> String? { names[Int(index)].destination }

    func scope(_ index: Int32) -> ConditionIndex { names[Int(index)].scope }

    /// The gates of a scope, in no order.
    func all(of scope: ConditionIndex) -> some Sequence<Int32> { (indices[scope] ?? [:]).values }

    /// A gate that exists.
    subscript(index: Int32) -> GateState {
        _read { yield gates[Int(index)] }
        // In its place: its lines are long.
        _modify { yield &gates[Int(index)] }
    }
}
