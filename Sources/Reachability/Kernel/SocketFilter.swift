internal import CNetlink
internal import Synchronization

/// The event socket's filter: replaced by whoever learns of new destinations, while the reader reads.
///
/// Safe to use from any thread.
final class SocketFilter: Sendable {
    private struct State {
        var filter: EventFilter?
        var descriptor: Int32?
    }

    private let state = Mutex(State())

    /// Lets pass only what can matter for these destinations; before the first call all passes.
    func watch(_ destinations: Set<IPAddress>) {
        let filter = EventFilter(watching: destinations)
        state.withLock { state in
            guard state.filter != filter else { return }
            state.filter = filter
            if let descriptor = state.descriptor { Self.attach(filter, descriptor) }
        }
    }

    /// Attaches the filter to a socket, and keeps it up to date from now on.
    func attach(to descriptor: Int32) {
        state.withLock { state in
            state.descriptor = descriptor
            if let filter = state.filter { Self.attach(filter, descriptor) }
        }
    }

    /// Forgets the socket, before it is closed.
    func detach() {
        state.withLock { $0.descriptor = nil }
    }

    private static func attach(_ filter: EventFilter, _ descriptor: Int32) {
        let instructions = filter.instructions.map {
            cnl_instruction(code: $0.code, if_true: $0.jt, if_false: $0.jf, operand: $0.k)
        }
        guard cnl_set_filter(descriptor, instructions, instructions.count) != 0 else { return }
        // A kernel with a small net.core.optmem_max has no room for many addresses. No filter is better than an earlier one.
        _ = cnl_set_filter(descriptor, nil, 0)
    }
}
