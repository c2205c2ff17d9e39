internal import Dispatch
package import Glibc
internal import Reachability
internal import Testing

/// Runs a body on a thread of its own, and waits for its end.
package func onAnotherThread(_ body: @escaping @Sendable () -> Void) {
    let end = DispatchSemaphore(value: 0)
    detachThread {
        body()
        end.signal()
    }
    end.wait()
}

/// Runs a body that blocks on a thread of its own: the pool's few threads are for tests.
package func detachThread(_ body: @escaping @Sendable () -> Void) {
    let error = SystemThread.start(body)
    #expect(error == 0)
    // Nothing runs the body.
    if error != 0 { body() }
}

/// The calling thread, also of an asynchronous function.
package func currentThread() -> pthread_t { pthread_self() }
