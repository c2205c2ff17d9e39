/// The tickets of the jobs that have not ended, and the names of the jobs whose tasks have not seen their end.
struct TicketDesk: Sendable {
    private var tickets: [Ticket?] = []
    private var named: [JobID: Ticket] = [:]
    private(set) var count = 0

    subscript(key: JobKey) -> Ticket? {
        guard Int(key.index) < tickets.count, let ticket = tickets[Int(key.index)], ticket.key == key else { return nil }
        return ticket
    }

    /// The job of that name.
    subscript(id: JobID) -> Ticket? {
        guard case .numbered(_, let key) = id.name else { return named[id] }
        // Another bus may have given the same place to another job.
        return self[key].flatMap { $0.id == id ? $0 : nil }
    }

    mutating func add(_ ticket: Ticket) {
        let index = Int(ticket.key.index)
        while tickets.count <= index { tickets.append(nil) }
        tickets[index] = ticket
        if ticket.hasName { named[ticket.id] = ticket }
        count += 1
    }

    /// The job has ended, and its place may be taken by another.
    mutating func remove(_ ticket: Ticket) {
        tickets[Int(ticket.key.index)] = nil
        if ticket.hasName { named[ticket.id] = nil }
        count -= 1
    }

    /// Whether every job's task sleeps or is busy with an attempt: nothing is left to pick up.
    func isQuiet(isRunning: (JobKey) -> Bool) -> Bool {
        tickets.allSatisfy { ticket in
            ticket.map { $0.continuation != nil || (!$0.mayStart && isRunning($0.key)) } ?? true
        }
    }
}
