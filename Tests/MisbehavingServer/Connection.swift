internal import Glibc

/// A TCP connection with blocking calls; closed with the object.
final class Connection {
    let descriptor: Int32
    private var pending: [UInt8] = []

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// The next request's head, without its empty line; `nil` if the client is gone.
    func readHead() -> String? {
        let end: [UInt8] = [13, 10, 13, 10]
        while true {
            if let start = pending.indices.first(where: { pending[$0...].starts(with: end) }) {
                defer { pending.removeSubrange(..<(start + end.count)) }
                return String(decoding: pending[..<start], as: UTF8.self)
            }
            guard let bytes = read(), !bytes.isEmpty else { return nil }
            pending += bytes
        }
    }

    /// Some bytes; none at the end, `nil` on an error.
    func read() -> [UInt8]? {
        if !pending.isEmpty {
            defer { pending = [] }
            return pending
        }
        return withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { buffer in
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            return count < 0 ? nil : Array(buffer[..<count])
        }
    }

    @discardableResult
    func write(_ bytes: some Sequence<UInt8>) -> Bool {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Waits until the other side has taken in what was written, or is gone.
    func flush() {
        var left: Int32 = 1
        // SIOCOUTQ of linux/sockios.h: what is not acknowledged yet.
        while ioctl(descriptor, 0x5411, &left) == 0, left > 0 { sched_yield() }
    }

    /// Makes closing a reset.
    func resetOnClose() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
    }

    /// Waits until the other side is gone.
    func untilGone() { while let bytes = read(), !bytes.isEmpty {} }
}
