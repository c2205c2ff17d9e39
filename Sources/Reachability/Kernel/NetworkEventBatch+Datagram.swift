internal import CNetlink

extension NetworkEventBatch {
    /// Whether there is nothing in it that a monitor would have to know.
    var isEmpty: Bool {
        events.isEmpty && !hasMore && spoofed == 0 && malformed == 0 && drops == 0 && reopens == 0 && receiveBuffer == nil
    }

    /// Empties it for the next events, which find room where the last ones were, unless that is more than most batches need.
    package mutating func removeAll() {
        events.removeAll(keepingCapacity: events.capacity <= 512)
        (hasMore, spoofed, malformed, drops, reopens, receiveBuffer) = (false, 0, 0, 0, 0, nil)
    }

    /// Adds what a datagram of the event socket announces.
    ///
    /// What cannot be understood is counted and skipped, what does not concern reachability is skipped. The datagram may be
    /// anything.
    mutating func append(datagram: UnsafeRawBufferPointer) {
        MessageDecoder.forEach(in: datagram) { message in
            if let event = MessageDecoder.event(message) {
                events.append(event)
            } else if message.kind == CNL_MALFORMED {
                malformed += 1
            }
        }
    }
}
