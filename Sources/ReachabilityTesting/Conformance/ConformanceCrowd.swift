internal import Glibc
internal import Synchronization

/// Threads that do the same at the same time.
final class ConformanceCrowd: Sendable {
    private final class Work: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private let rest: Mutex<Int>

    /// Starts threads; what cannot be started is left out.
    ///
    /// - Parameter whenLeft: called by each thread when it no longer counts.
    init(_ count: Int, _ body: @escaping @Sendable () -> Void, whenLeft: @escaping @Sendable () -> Void = {}) {
        rest = Mutex(count)
        for _ in 0..<count {
            let work = Work { [self] in
                body()
                leave()
                whenLeft()
            }
            var thread = pthread_t()
            let argument = Unmanaged.passRetained(work)
            let code = pthread_create(
                &thread, nil,
                { argument in
                    if let argument { Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().body() }
                    return nil
                }, argument.toOpaque())
            if code == 0 {
                pthread_detach(thread)
            } else {
                argument.release()
                leave()
            }
        }
    }

    /// Whether all have finished.
    var isGone: Bool { rest.withLock { $0 <= 0 } }

    private func leave() { rest.withLock { $0 -= 1 } }
}
