import Glibc

/// Threads for calls that block for long: Swift's pool has one thread per processor.
package enum BlockingThread {
    private final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Starts a thread; returns false if the system has none left (pthread_create(3)).
    @discardableResult
    package static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        var thread = pthread_t()
        let box = Unmanaged.passRetained(Box(body))
        let error = pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
                return nil
            }, box.toOpaque())
        guard error == 0 else {
            box.release()
            return false
        }
        pthread_detach(thread)
        return true
    }
}
