import Glibc
import Reachability

/// A command that is run once for each attempt.
struct ChildCommand: Sendable {
    /// The words of the command line, without their final zero bytes; they need not be text.
    let words: [[UInt8]]
    let supervisor: ChildSupervisor

    /// Runs the command to its end, with this program's standard input, output, error and environment.
    ///
    /// When the task is cancelled, the command and all its descendants get SIGTERM, and SIGKILL five seconds later; then it counts
    /// as failed whatever its code.
    func run() async throws(ChildFailure) {
        let files = Self.files(named: words.first ?? [])
        switch await supervisor.run(ChildSupervisor.Command(files: files, words: words)) {
        case .ended(let end):
            switch end.status {
            case .exited(0) where !end.wasCut && !end.wasToldToEnd: return
            case .exited(let code): throw ChildFailure(cause: .exited(code), wasToldToEnd: end.wasToldToEnd, wasCut: end.wasCut)
            case .signaled(let signal):
                throw ChildFailure(cause: .signaled(signal), wasToldToEnd: end.wasToldToEnd, wasCut: end.wasCut)
            }
        case .failed(let errno, let file):
            let tried = file.flatMap { files.indices.contains($0) ? files[$0] : nil }
            throw ChildFailure(cause: .starting(words.first ?? [], tried, errno))
        }
    }

    /// The files that a name may stand for, as execvp(3) looks for them.
    private static func files(named name: [UInt8]) -> [[UInt8]] {
        guard !name.contains(UInt8(ascii: "/")) else { return [name] }
        let path = getenv("PATH").map { RawArguments.bytes($0) } ?? Array("/bin:/usr/bin".utf8)
        // An empty folder is the current one.
        return path.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).map { folder in
            folder.isEmpty ? name : folder + [UInt8(ascii: "/")] + name
        }
    }
}
