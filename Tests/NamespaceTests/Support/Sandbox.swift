import CSandbox
import Glibc

/// A restriction of a sandbox.
enum Sandbox: Sendable, CaseIterable {
    case noMulticast
    case noNetlink
    case noSockets
    case scarceNetlink
    case scarceSockets

    /// Runs a body on a restricted thread; the restriction extends to its children.
    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        let box = Box(body)
        let error = csandbox_run(
            refusal, { Unmanaged<AnyBox>.fromOpaque($0).takeUnretainedValue().run() },
            Unmanaged<AnyBox>.passUnretained(box).toOpaque())
        guard error == 0, let result = box.result else {
            throw Child.Failure(description: "the sandbox is not available: \(String(cString: strerror(-error)))")
        }
        return try result.get()
    }

    private var refusal: csandbox_refusal {
        switch self {
        case .noMulticast: CSANDBOX_NO_MULTICAST
        case .noNetlink: CSANDBOX_NO_NETLINK
        case .noSockets: CSANDBOX_NO_SOCKETS
        case .scarceNetlink: CSANDBOX_SCARCE_NETLINK
        case .scarceSockets: CSANDBOX_SCARCE_SOCKETS
        }
    }

    private class AnyBox {
        func run() {}
    }

    private final class Box<Value>: AnyBox {
        private let body: () throws -> Value
        private(set) var result: Result<Value, any Error>?

        init(_ body: @escaping () throws -> Value) { self.body = body }

        override func run() { result = Result(catching: body) }
    }
}
