internal import CNetlink
internal import Synchronization

/// Interrupts the reader's sleep (eventfd(2)): to stop it, to request an empty batch, or to make it run jobs.
///
/// Safe to use from any thread.
final class EventFD: Sendable {
    private let opened: Atomic<Int32>
    private let stopped = Atomic(false)
    private let batchIsWanted = Atomic(false)

    init() { opened = Atomic(cnl_eventfd_open()) }

    deinit {
        if descriptor >= 0 { cnl_eventfd_close(descriptor) }
    }

    /// The descriptor, or a negative errno while the process has none left.
    var descriptor: Int32 { opened.load(ordering: .acquiring) }

    /// Opens the descriptor if the process had none left before.
    ///
    /// One thread at a time: only the reader calls it.
    func reopen() {
        if descriptor < 0 { opened.store(cnl_eventfd_open(), ordering: .releasing) }
    }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    /// Requests an empty batch.
    func signal() {
        batchIsWanted.store(true, ordering: .releasing)
        interrupt()
    }

    /// Ends the sleep without a request.
    func interrupt() {
        if descriptor >= 0 { cnl_eventfd_signal(descriptor) }
    }

    /// Allows the next reader to run.
    func start() { stopped.store(false, ordering: .releasing) }

    /// Stops the reader.
    func stop() {
        stopped.store(true, ordering: .releasing)
        signal()
    }

    /// Makes the descriptor unreadable, and returns whether a batch was requested.
    ///
    /// In this order: a request in between is answered now, and the descriptor stays readable once more than needed.
    @discardableResult
    func clear() -> Bool {
        cnl_eventfd_clear(descriptor)
        return batchIsWanted.exchange(false, ordering: .acquiring)
    }
}
