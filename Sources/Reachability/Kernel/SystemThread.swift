internal import CNetlink
internal import Glibc

/// Threads of the system, for calls that block: Swift's pool has one thread per processor.
package enum SystemThread {
    private final class Start: Sendable {
        let name: StaticString?
        let body: @Sendable () -> Void

        init(_ name: StaticString?, _ body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }
    }

    /// Starts a detached thread.
    ///
    /// - Parameters:
    ///   - name: The thread's name, truncated to 15 bytes (prctl(2)).
    ///   - blocksSignals: True for the threads of libraries: signals belong to the program.
    /// - Returns: 0, or the error number of pthread_create(3): EAGAIN if no thread or memory is left.
    @discardableResult
    package static func start(
        named name: StaticString? = nil, blocksSignals: Bool = false, _ body: @escaping @Sendable () -> Void
    ) -> Int32 {
        var old = sigset_t()
        if blocksSignals {
            var all = sigset_t()
            sigfillset(&all)
            pthread_sigmask(SIG_SETMASK, &all, &old)
        }
        defer { if blocksSignals { pthread_sigmask(SIG_SETMASK, &old, nil) } }
        let start = Unmanaged.passRetained(Start(name, body))
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                start.name?.withUTF8Buffer { name in
                    name.withMemoryRebound(to: CChar.self) { if let name = $0.baseAddress { cnl_name_thread(name) } }
                }
                start.body()
                return nil
            }, start.toOpaque())
        if error == 0 { pthread_detach(thread) } else { start.release() }
        return error
    }

    /// Runs the body on a thread of the library, and returns or throws when the body does.
    static func run(_ body: @escaping @Sendable () throws(ReachabilityError) -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let error = start(named: "reachability", blocksSignals: true) {
                do {
                    try body()
                    continuation.resume()
                } catch {
                    continuation.resume(throwing: error)
                }
            }
            if error != 0 {
                continuation.resume(throwing: ReachabilityError(.resourcesExhausted, errno: error, operation: "pthread_create()"))
            }
        }
    }
}
