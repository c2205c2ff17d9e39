internal import CNetlink
internal import Synchronization

/// Interrupts the reader's sleep (eventfd(2)), to stop it or to ask it for an empty batch.
final class WakeUp: Sendable {
    /// The descriptor, or a negative errno if the process has none left.
    let descriptor: Int32
    private let stopped = Atomic(false)

    init() { descriptor = cnl_event_open() }

    deinit {
        if descriptor >= 0 { cnl_event_close(descriptor) }
    }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    func signal() {
        if descriptor >= 0 { cnl_event_signal(descriptor) }
    }

    /// Allows the next reader to run.
    func start() { stopped.store(false, ordering: .releasing) }

    func stop() {
        stopped.store(true, ordering: .releasing)
        signal()
    }

    func clear() { cnl_event_clear(descriptor) }
}
