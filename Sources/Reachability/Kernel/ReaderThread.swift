internal import CNetlink
internal import Glibc

/// A thread of the reader's own: between the kernel and a verdict there is no executor to hop to.
enum ReaderThread {
    /// Runs the body on a new thread, and returns or throws when it does.
    static func run(_ body: @escaping @Sendable () throws(ReachabilityError) -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let error = start {
                do {
                    try body()
                    continuation.resume()
                } catch {
                    continuation.resume(throwing: error)
                }
            }
            if error != 0 {
                continuation.resume(throwing: ReachabilityError(.requestFailed, errno: error, operation: "pthread_create()"))
            }
        }
    }

    private final class Start: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Starts a detached thread that takes no signals: they belong to the program.
    ///
    /// Returns 0 or an errno.
    private static func start(_ body: @escaping @Sendable () -> Void) -> Int32 {
        var all = sigset_t()
        var old = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &old)
        defer { pthread_sigmask(SIG_SETMASK, &old, nil) }
        let start = Unmanaged.passRetained(Start(body))
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                cnl_name_thread("reachability")
                Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().body()
                return nil
            }, start.toOpaque())
        if error == 0 { pthread_detach(thread) } else { start.release() }
        return error
    }
}
