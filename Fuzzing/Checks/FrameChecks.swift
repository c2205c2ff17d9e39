@testable import Reachability

/// What must hold of any datagram on the event socket.
enum FrameChecks {
    static func check(_ bytes: [UInt8]) throws(Finding) {
        let batch = bytes.withUnsafeBytes(read)
        try Finding.check(describes(batch), "every event has a text")

        // By the lengths alone (rtnetlink(7)): whole messages, and perhaps a rest that is none.
        let (messages, hasRest) = split(bytes)
        let singles = messages.map { $0.withUnsafeBytes(read) }
        try Finding.check(singles.allSatisfy { $0.events.count + $0.malformed <= 1 }, "a message is one event at most")
        try Finding.check(batch.events == singles.flatMap(\.events), "a message means the same wherever it stands")
        let malformed = singles.reduce(hasRest ? 1 : 0) { $0 + $1.malformed }
        try Finding.check(batch.malformed == malformed, "\(batch.malformed) are counted as malformed, \(malformed) are")

        let shifted = ([0] + bytes).withUnsafeBytes { read(UnsafeRawBufferPointer(rebasing: $0.dropFirst())) }
        try Finding.check(
            shifted.events == batch.events && shifted.malformed == batch.malformed, "the place in memory does not matter")
    }

    /// What the monitor is told of a datagram.
    static func read(_ datagram: UnsafeRawBufferPointer) -> NetworkEventBatch {
        var batch = NetworkEventBatch(now: BootInstant(sinceBoot: .zero), wallTime: .zero)
        batch.append(datagram: datagram)
        return batch
    }

    /// Takes the events to where the monitor takes them.
    private static func describes(_ batch: NetworkEventBatch) -> Bool {
        var table = InterfaceTable()
        return batch.events.allSatisfy { event in
            guard let hint = table.apply(event.payload) else { return true }
            return !hint.cause.detail.isEmpty
        }
    }

    private static func split(_ bytes: [UInt8]) -> (messages: [[UInt8]], hasRest: Bool) {
        var messages: [[UInt8]] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            guard rest.count >= 16 else { return (messages, true) }
            let length = Int(rest.prefix(4).withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) })
            guard (16...rest.count).contains(length) else { return (messages, true) }
            messages.append(Array(rest.prefix(length)))
            rest = rest.dropFirst((length + 3) & ~3)
        }
        return (messages, false)
    }
}
