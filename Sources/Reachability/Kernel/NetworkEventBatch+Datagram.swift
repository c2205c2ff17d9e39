internal import CNetlink

extension NetworkEventBatch {
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
