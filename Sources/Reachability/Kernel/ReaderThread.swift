internal import CNetlink
internal import Glibc

/// Threads of this library: no executor hop lies between the kernel and a verdict.
enum ReaderThread {
    /// Runs the body on a new thread, and returns or throws when the body does.
    static func run(_ body: @escaping @Sendable () throws(ReachabilityError) -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let error = start(named: "reachability") {
                do {
                    try body()
                    continuation.resume()
                } catch {
                    continuation.resume(throwing: error)
                }
            }
            if error != 0 {
                // EAGAIN: no thread or memory is left (pthread_create(3)).
                continuation.resume(throwing: ReachabilityError(.resourcesExhausted, errno: error, operation: "pthread_create()"))
            }
        }
    }

    private final class Start: Sendable {
        let name: StaticString
        let body: @Sendable () -> Void

        init(_ name: StaticString, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Starts a detached thread with all signals blocked: they belong to the program.
    ///
    /// - Parameter name: the thread's name, truncated to 15 bytes (prctl(2)).
    /// - Returns: 0 or an errno.
    static func start(named name: StaticString, _ body: @escaping @Sendable () -> Void) -> Int32 {
        var all = sigset_t()
        var old = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &old)
        defer { pthread_sigmask(SIG_SETMASK, &old, nil) }
        let start = Unmanaged.passRetained(Start(name, body))
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                start.name.withUTF8Buffer { name in
                    name.withMemoryRebound(to: CChar.self) { if let name = $0.baseAddress { cnl_name_thread(name) } }
                }
                start.body()
                return nil
            }, start.toOpaque())
        if error == 0 { pthread_detach(thread) } else { start.release() }
        return error
    }
}
