internal import CNetlink
internal import Synchronization

/// Interrupts the reader's sleep (eventfd(2)): to stop it, to ask it for an empty batch, or to have it run jobs.
final class WakeUp: Sendable {
    /// The descriptor, or a negative errno if the process has none left.
    let descriptor: Int32
    private let stopped = Atomic(false)
    private let batchIsWanted = Atomic(false)

    init() { descriptor = cnl_event_open() }

    deinit {
        if descriptor >= 0 { cnl_event_close(descriptor) }
    }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    /// Asks for an empty batch.
    func signal() {
        batchIsWanted.store(true, ordering: .releasing)
        interrupt()
    }

    /// Ends the sleep and asks for nothing.
    func interrupt() {
        if descriptor >= 0 { cnl_event_signal(descriptor) }
    }

    /// Allows the next reader to run.
    func start() { stopped.store(false, ordering: .releasing) }

    func stop() {
        stopped.store(true, ordering: .releasing)
        signal()
    }

    /// Makes the descriptor unreadable, and returns whether a batch was asked for.
    ///
    /// In this order: who asks in between is heard now, and the descriptor is readable once more for nothing.
    @discardableResult
    func clear() -> Bool {
        cnl_event_clear(descriptor)
        return batchIsWanted.exchange(false, ordering: .acquiring)
    }
}
