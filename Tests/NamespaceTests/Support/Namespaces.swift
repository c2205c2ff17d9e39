import Glibc
import Synchronization

/// Network namespaces of ip-netns(8), named after this process.
enum Namespaces {
    /// Whether this process may make network namespaces.
    ///
    /// With `CI` set the tests run in any case, and fail if it may not.
    static let isAvailable: Bool = {
        if getenv("CI") != nil { return true }
        let name = uniqueName()
        let isPossible = system("ip netns add \(name) >/dev/null 2>&1 && ip netns del \(name) >/dev/null 2>&1") == 0
        if !isPossible {
            print("Namespace tests are skipped: `ip netns add` is not permitted. Run them as root, or through `make test`.")
        }
        return isPossible
    }()

    private static let count = Atomic(0)

    static func uniqueName() -> String {
        "reach-\(getpid())-\(count.add(1, ordering: .relaxed).newValue)"
    }
}

/// A network namespace of a test's own; deleted with the object.
final class Namespace: Sendable {
    let name = Namespaces.uniqueName()
    var path: String { "/run/netns/\(name)" }

    init() async throws {
        try await Child.run(["ip", "netns", "add", name])
        try await ip("link set lo up")
    }

    deinit {
        // Links that were moved here die with the namespace.
        _ = system("ip netns del \(name) 2>/dev/null")
    }

    /// Runs lines of `ip` commands, without the word itself, in the namespace.
    func ip(_ lines: String) async throws {
        try await Child.run(["ip", "-n", name, "-batch", "-"], input: lines + "\n")
    }

    /// The JSON that an `ip` command prints, or `nil` if it fails.
    func query(_ arguments: String...) async throws -> String? {
        let result = try await Child.run(["ip", "-j", "-n", name] + arguments, allowFailure: true)
        return result.code == 0 ? result.output : nil
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
