internal import Foundation
internal import Glibc
internal import Synchronization

/// The number of attempts that may run at a time in this process, so that they leave descriptors to everything else.
///
/// Dispatch stops a process that has no descriptor left. Once a second, if work is queued, it reads `/proc/TID/stat` of each of its
/// threads, and takes a file that it cannot open for a thread that is gone (`_dispatch_workq_count_runnable_workers`,
/// src/event/workqueue.c of libdispatch). `URLSession` and the tasks of Swift run on these threads.
final class DescriptorShare: Sendable {
    /// The share of this process, whatever its limit is at the moment.
    static let process = DescriptorShare { softLimit }

    private let limit: @Sendable () -> UInt64
    private let running = Mutex<UInt64>(0)

    /// Makes a share of a number of descriptors.
    init(of limit: @escaping @Sendable () -> UInt64) { self.limit = limit }

    /// Lets an attempt begin; ``giveBack()`` follows when it ends.
    ///
    /// An attempt needs a connection and perhaps a file: a quarter as many attempts as descriptors take half of them.
    ///
    /// - Throws: `POSIXError` with `EMFILE` if no more attempts may run: the system would say the same a little later.
    func take() throws {
        let most = max(1, limit() / 4)
        let isTaken = running.withLock { running in
            guard running < most else { return false }
            running += 1
            return true
        }
        if !isTaken { throw POSIXError(.EMFILE) }
    }

    /// Ends an attempt that ``take()`` let begin.
    func giveBack() { running.withLock { $0 -= 1 } }

    private static var softLimit: UInt64 {
        var limit = rlimit()
        // Fails for no resource that exists (getrlimit(2)). RLIM_INFINITY is the largest number.
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? UInt64(limit.rlim_cur) : .max
    }
}
