import CSandbox
import Glibc
import TestSupport

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
        let error = csandbox_run(refusal, AnyBox.run, box.pointer)
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

}

/// Reports of a process that joins multicast groups of netlink: it receives the events from then on.
///
/// The kernel announces no new sockets; seccomp_unotify(2) reports the system calls.
final class JoinReports: Sendable {
    /// The number of a monitor's groups: `cnl_group_count()`, which only the kernel's reader imports.
    private static let groups = 10

    private let (joins, join) = AsyncStream.makeStream(of: Void.self)

    /// Runs a body on a thread whose children report their joins.
    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
        let box = Box(body)
        let listener = csandbox_run_reporting_joins(AnyBox.run, box.pointer)
        guard listener >= 0, let result = box.result else {
            throw Child.Failure(description: "joins cannot be reported: \(String(cString: strerror(-listener)))")
        }
        detachThread { [join] in
            while csandbox_next_join(listener) == 1 { join.yield() }
            close(listener)
            join.finish()
        }
        return try result.get()
    }

    /// Waits until a process has joined all groups of a monitor.
    func untilComplete() async throws {
        var count = 0
        for await _ in joins {
            count += 1
            if count == Self.groups { return }
        }
        throw Child.Failure(description: "the process ended after \(count) joins")
    }
}

/// A function of any type, for C.
private class AnyBox {
    static let run: @convention(c) (UnsafeMutableRawPointer) -> Void = {
        Unmanaged<AnyBox>.fromOpaque($0).takeUnretainedValue().run()
    }

    var pointer: UnsafeMutableRawPointer { Unmanaged<AnyBox>.passUnretained(self).toOpaque() }

    func run() {}
}

/// A function and its result.
private final class Box<Value>: AnyBox {
    private let body: () throws -> Value
    private(set) var result: Result<Value, any Error>?

    init(_ body: @escaping () throws -> Value) { self.body = body }

    override func run() { result = Result(catching: body) }
}
