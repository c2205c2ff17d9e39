import CSandbox
import Glibc

/// Something that sandboxes refuse.
enum Sandbox: Sendable, CaseIterable {
    case noMulticast
    case noNetlink
    case noSockets

    /// Runs a body on a thread that is restricted, and so are the children that it starts.
    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        let box = Box(refusal, body)
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<AnyBox>.fromOpaque(argument).takeUnretainedValue().run()
                return nil
            }, Unmanaged<AnyBox>.passUnretained(box).toOpaque())
        guard error == 0 else { throw Child.Failure(description: "pthread_create: \(String(cString: strerror(error)))") }
        pthread_join(thread, nil)
        guard let result = box.result else { throw Child.Failure(description: "the sandbox is not to be had") }
        return try result.get()
    }

    private var refusal: csandbox_refusal {
        switch self {
        case .noMulticast: CSANDBOX_NO_MULTICAST
        case .noNetlink: CSANDBOX_NO_NETLINK
        case .noSockets: CSANDBOX_NO_SOCKETS
        }
    }

    private class AnyBox {
        func run() {}
    }

    private final class Box<Value>: AnyBox {
        private let refusal: csandbox_refusal
        private let body: () throws -> Value
        private(set) var result: Result<Value, any Error>?

        init(_ refusal: csandbox_refusal, _ body: @escaping () throws -> Value) {
            self.refusal = refusal
            self.body = body
        }

        override func run() {
            guard csandbox_restrict(refusal) == 0 else { return }
            result = Result(catching: body)
        }
    }
}
