/// The numbers by which a ``MemoryStoreState`` finds its lanes.
struct LaneNumbers: Sendable {
    /// The number of the last new lane.
    private(set) var last: Lane.ID = 0
    private var indexes: [Lane.ID: Int32] = [:]
    private var named: [MemoryStoreState.LaneKey: Int32] = [:]
    /// The indexes of deleted lanes.
    private var free: [Int32] = []
    /// The lanes that have lost their last job.
    private(set) var empty: Set<Int32> = []

    /// Returns the index of a lane; `nil` if there is none.
    func index(of id: Lane.ID) -> Int32? { indexes[id] }
    func index(of key: MemoryStoreState.LaneKey) -> Int32? { named[key] }

    /// Assigns the number and the index of a new lane; the index is at most the number of lanes.
    mutating func add(_ key: MemoryStoreState.LaneKey, count: Int) -> (Lane.ID, Int32) {
        last += 1
        let index = free.popLast() ?? Int32(count)
        (indexes[last], named[key]) = (index, index)
        return (last, index)
    }

    /// Takes note that a lane has no jobs.
    mutating func noteEmpty(_ index: Int32) { empty.insert(index) }

    /// Takes note that a lane has jobs again.
    mutating func noteUsed(_ index: Int32) { empty.remove(index) }

    mutating func remove(_ index: Int32, _ id: Lane.ID, _ key: MemoryStoreState.LaneKey) {
        (indexes[id], named[key]) = (nil, nil)
        free.append(index)
        empty.remove(index)
    }
}

/// The queues, the lanes and the destinations that orders of servers hold.
extension MemoryStoreState {
    /// Returns the index of a queue; `nil` if it has never been named.
    func existingNumber(ofQueue name: String) -> Int32? { queueNumbers[name] }

    /// Returns the index of a queue.
    mutating func number(ofQueue name: String) -> Int32 {
        if let number = queueNumbers[name] { return number }
        let number = Int32(queues.count)
        queues.append(Queue(name: name))
        queueNumbers[name] = number
        return number
    }

    /// Returns the index of a job's lane.
    mutating func lane(of job: NewJob) -> Int32 {
        let queue = number(ofQueue: job.queue)
        let key = LaneKey(
            queue: queue, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination)
        if let index = laneNumbers.index(of: key) { return index }
        let (id, index) = laneNumbers.add(key, count: lanes.count)
        let lane = Lane(id: id, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination)
        let hold = holdNumber(Hold.Key(queue: queue, scope: job.scope, destination: job.destination))
        holds[Int(hold)].lanes.append(index)
        let new = MemoryLane(lane, queue: queue, hold: hold)
        if Int(index) < lanes.count { lanes[Int(index)] = new } else { lanes.append(new) }
        if holds[Int(hold)].until > now { lanes[Int(index)].clock.hold(until: holds[Int(hold)].until, now) }
        queues[Int(queue)].lanes.append(index)
        return index
    }

    private mutating func holdNumber(_ key: Hold.Key) -> Int32 {
        if let number = holdNumbers[key] { return number }
        let number = freeHolds.popLast() ?? Int32(holds.count)
        if Int(number) == holds.count { holds.append(Hold()) }
        holdNumbers[key] = number
        return number
    }

    /// Changes the number of a lane's jobs.
    mutating func addJobs(_ number: Int, lane index: Int32) {
        lanes[Int(index)].jobs += number
        if lanes[Int(index)].jobs == 0 { laneNumbers.noteEmpty(index) } else { laneNumbers.noteUsed(index) }
    }

    /// Deletes lanes without jobs, unless a server's order holds their destination.
    mutating func pruneLanes() {
        let removed = laneNumbers.empty.filter { holds[Int(lanes[Int($0)].hold)].until <= now }
        guard !removed.isEmpty else { return }
        forgetLanes(removed)
        for queue in Set(removed.map { lanes[Int($0)].queue }) { queues[Int(queue)].lanes.removeAll(where: removed.contains) }
        for index in removed {
            let (lane, queue, hold) = (lanes[Int(index)].lane, lanes[Int(index)].queue, lanes[Int(index)].hold)
            let key = LaneKey(
                queue: queue, kind: lane.kind, version: lane.version, scope: lane.scope, destination: lane.destination)
            laneNumbers.remove(index, lane.id, key)
            // Frees its heaps.
            lanes[Int(index)] = MemoryLane(Lane(id: 0, kind: "", version: 0, scope: "", destination: nil), queue: -1, hold: 0)
            holds[Int(hold)].lanes.removeAll { $0 == index }
            guard holds[Int(hold)].lanes.isEmpty else { continue }
            holdNumbers[Hold.Key(queue: queue, scope: lane.scope, destination: lane.destination)] = nil
            holds[Int(hold)] = Hold()
            freeHolds.append(hold)
        }
    }
}
