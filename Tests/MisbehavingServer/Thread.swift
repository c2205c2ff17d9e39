internal import Glibc

/// A thread for what blocks.
struct Thread {
    private let thread: pthread_t

    private final class Body {
        let run: () -> Void
        init(_ run: @escaping () -> Void) { self.run = run }
    }

    static func run(_ body: @escaping @Sendable () -> Void) -> Thread {
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(Body(body)).toOpaque())
        return Thread(thread: thread)
    }

    func join() { pthread_join(thread, nil) }

    func detach() { pthread_detach(thread) }
}
