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
        let isPossible = hasRun("add", name) && hasRun("del", name)
        if !isPossible {
            print("Namespace tests are skipped: `ip netns add` is not permitted. Run them as root, or through `make test`.")
        }
        return isPossible
    }()

    /// Runs `ip netns` to its end, in silence.
    ///
    /// Not with system(3): while that waits, this process ignores SIGINT and SIGQUIT, and so does all that other tests start then.
    static func hasRun(_ arguments: String...) -> Bool {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor in STDOUT_FILENO...STDERR_FILENO {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        }
        var words = (["ip", "netns"] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var pid = pid_t()
        guard posix_spawnp(&pid, "ip", &actions, nil, &words, environ) == 0 else { return false }
        var status: Int32 = -1
        while waitpid(pid, &status, 0) == -1, errno == EINTR {}
        return status == 0
    }

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
        _ = Namespaces.hasRun("del", name)
    }

    /// Runs lines of `ip` commands, without the word itself, in the namespace.
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
