import Glibc
import Synchronization

/// SIGHUP, SIGINT and SIGTERM, taken by the main thread when it wants them instead of ending the process at once.
///
/// Signals that were ignored at the start, as under nohup(1) or in a shell's background, stay ignored.
/// Made before any other thread: those that are born later block them, too.
struct HeldSignals {
    private static let received = Atomic<Int32>(0)
    private var set = sigset_t()

    init() {
        sigemptyset(&set)
        for signal in [SIGHUP, SIGINT, SIGTERM] where !ProcessSetup.isIgnored(signal) { sigaddset(&set, signal) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// The signal that came, if one did.
    static var last: Int32? {
        let number = received.load(ordering: .acquiring)
        return number == 0 ? nil : number
    }

    /// Waits for a signal (sigwait(3)).
    func next() -> Int32 {
        var set = set
        var number: Int32 = 0
        while sigwait(&set, &number) != 0 {}
        Self.received.store(number, ordering: .releasing)
        return number
    }

    /// Waits for another signal: whoever sends two is in a hurry.
    func waitForAnother(atMost milliseconds: Int) {
        var set = set
        var time = timespec()
        time.tv_nsec = milliseconds * 1_000_000
        // EINTR ends it as well: stopped and continued, it has waited long enough.
        _ = sigtimedwait(&set, nil, &time)
    }
}
