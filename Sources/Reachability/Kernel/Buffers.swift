internal import CNetlink

/// Memory for the answers to the look-ups of one call.
struct AnswerBuffer: ~Copyable {
    let messages: UnsafeMutablePointer<cnl_message>

    init() {
        messages = .allocate(capacity: Int(CNL_LOOKUP_LIMIT))
        messages.initialize(repeating: cnl_message(), count: Int(CNL_LOOKUP_LIMIT))
    }

    deinit { messages.deallocate() }
}

/// Memory for the datagrams of one call.
struct DatagramBuffer: ~Copyable {
    let bytes = UnsafeMutableRawPointer.allocate(byteCount: Int(CNL_MANY_BUFFER_SIZE), alignment: 16)
    let datagrams = UnsafeMutablePointer<cnl_datagram>.allocate(capacity: Int(CNL_DATAGRAM_LIMIT))

    deinit {
        bytes.deallocate()
        datagrams.deallocate()
    }
}

/// Memory for one datagram.
struct ReceiveBuffer: ~Copyable {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(CNL_BUFFER_SIZE), alignment: 16)

    deinit { bytes.deallocate() }
}
