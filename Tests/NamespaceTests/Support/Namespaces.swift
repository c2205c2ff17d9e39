import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

/// Network namespaces of ip-netns(8), named after this process.
enum Namespaces {
    /// `true` if this process may create network namespaces.
    ///
    /// With `CI` set the tests always run, and fail without the permission.
    static let isAvailable: Bool = {
        if getenv("CI") != nil { return true }
        let name = uniqueName()
        let isPossible = hasRun("add", name) && hasRun("del", name)
        if !isPossible {
            print("Namespace tests are skipped: `ip netns add` is not permitted. Run them as root, or through `make test`.")
        }
        return isPossible
    }()

    /// Runs `ip netns` without output.
    ///
    /// system(3) makes this process ignore SIGINT and SIGQUIT while it waits, and children of other tests inherit that.
    static func hasRun(_ arguments: String...) -> Bool {
        let pid = try? spawn(["ip", "netns"] + arguments) { actions in
            for descriptor in STDOUT_FILENO...STDERR_FILENO {
                posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
            }
        }
        return pid.map { awaitEnd(of: $0) } == 0
    }

    private static let count = Atomic(0)

    static func uniqueName() -> String {
        "reach-\(getpid())-\(count.add(1, ordering: .relaxed).newValue)"
    }
}

/// A network namespace for one test; deleted with the object.
final class Namespace: Sendable {
    let name = Namespaces.uniqueName()
    var path: String { "/run/netns/\(name)" }

    init() async throws {
        try await Child.run(["ip", "netns", "add", name])
        try await ip("link set lo up")
    }

    deinit {
        // The kernel deletes the links in it.
        _ = Namespaces.hasRun("del", name)
    }

    /// Runs lines of `ip` arguments in the namespace.
    func ip(_ lines: String) async throws {
        try await Child.run(["ip", "-n", name, "-batch", "-"], input: lines + "\n")
    }

    /// Runs any command in the namespace.
    @discardableResult
    func run(_ arguments: String..., input: String = "") async throws -> String {
        try await Child.run(["ip", "netns", "exec", name] + arguments, input: input).output
    }

    func sysctl(_ key: String, _ value: String) async throws {
        try await run("sysctl", "-qw", "\(key)=\(value)")
    }
}

/// The machine of the tests.
enum Machine {
    /// The factor for time limits: 10, or 10 times the number of runnable tasks per processor.
    ///
    /// Limits tell an event from a timer that comes after half a minute. The load average follows the load late, and the other
    /// tests of this process hold its threads.
    static var slowness: Int {
        var load = 0.0
        guard getloadavg(&load, 1) == 1, load.isFinite else { return 10 }
        let processors = Double(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        return 10 * max(1, Int((load / processors).rounded(.up)))
    }

    /// Another user than this process's, or 0 in a user namespace without other users.
    static let otherUser: UInt32 = {
        let map = try? String(contentsOfFile: "/proc/self/uid_map", encoding: .utf8).split(whereSeparator: \.isWhitespace)
        return map?.last.flatMap { UInt32($0) }.map { $0 > 1000 } == true ? 1000 : 0
    }()
}

extension Tag {
    /// Tests that need the real kernel.
    @Tag static var kernel: Self
}
