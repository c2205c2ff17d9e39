@testable import Reachability

/// The rules for any datagram on the event socket.
enum FrameChecks {
    static func check(_ bytes: [UInt8]) throws(Finding) {
        let batch = bytes.withUnsafeBytes(read)
        try Finding.check(describes(batch), "an event has no text")

        // Splits by the lengths alone (rtnetlink(7)): whole messages, and perhaps an incomplete rest.
        let (messages, hasRest) = split(bytes)
        let singles = messages.map { $0.withUnsafeBytes(read) }
        try Finding.check(singles.allSatisfy { $0.events.count + $0.malformed <= 1 }, "a message is more than one event")
        try Finding.check(batch.events == singles.flatMap(\.events), "a message alone has another meaning")
        let malformed = singles.reduce(hasRest ? 1 : 0) { $0 + $1.malformed }
        try Finding.check(batch.malformed == malformed, "\(batch.malformed) are counted as malformed instead of \(malformed)")

        let shifted = ([0] + bytes).withUnsafeBytes { read(UnsafeRawBufferPointer(rebasing: $0.dropFirst())) }
        try Finding.check(
            shifted.events == batch.events && shifted.malformed == batch.malformed, "the meaning depends on the address")
    }

    /// Returns the batch that the monitor gets for a datagram.
    static func read(_ datagram: UnsafeRawBufferPointer) -> NetworkEventBatch {
        var batch = NetworkEventBatch(now: BootInstant(sinceBoot: .zero), wallTime: .zero)
        batch.append(datagram: datagram)
        return batch
    }

    /// Applies the events as the monitor does; returns `true` if every cause has a text.
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
