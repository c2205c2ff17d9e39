import Glibc
import Reachability

/// A command that did not succeed.
struct ChildFailure: Error, Hashable, CustomStringConvertible {
    /// The kind of failure.
    enum Cause: Hashable {
        /// It ended with this code.
        case exited(Int32)
        /// This signal ended it.
        case signaled(Int32)
        /// There is no such command.
        case notFound(String)
        /// It cannot be executed: which file, and why.
        case notExecutable(String, String)
        /// A passing shortage keeps it from being started: which file, and the error number.
        case notStarted(String, Int32)
    }

    var cause: Cause
    /// Whether this program was told to end meanwhile, so that there is no further attempt.
    var wasToldToEnd = false
    /// Whether this program ended it, because its time was over.
    var wasCut = false

    /// The exit code that a shell would show, and that this program ends with.
    var code: Int32 {
        switch cause {
        case .exited(let code): code
        case .signaled(let signal): 128 + signal
        case .notFound: 127
        case .notExecutable, .notStarted: 126
        }
    }

    /// Whether another attempt would fail the same way, or the user wants none.
    ///
    /// A shell that does not find a command, or cannot execute it, ends with the same codes as this program.
    var isFinal: Bool { wasToldToEnd || !isPassing && (code == 126 || code == 127) }

    /// Whether a passing shortage of this machine kept the command from being started.
    var isPassing: Bool { if case .notStarted = cause { true } else { false } }

    var description: String {
        switch cause {
        case .exited(let code): "exit code \(code)"
        case .signaled(let signal): "ended by signal \(signal) (\(String(cString: strsignal(signal))))"
        case .notFound(let command):
            "\(command) was not found; " + (command.contains("/") ? "is the path right?" : "is it installed, and on the PATH?")
        case .notExecutable(let file, let reason): "\(file) cannot be executed: \(reason)"
        case .notStarted(let file, let number): "\(file) cannot be started now: \(errorText(number)) (errno \(number))"
        }
    }
}

extension ChildFailure.Cause {
    /// The cause that an error of fork(2) or execve(2) stands for.
    ///
    /// - Parameters:
    ///   - command: The name on the command line.
    ///   - file: The file that the error is about.
    static func starting(_ command: [UInt8], _ file: [UInt8]?, _ number: Int32) -> Self {
        let name = text(command)
        switch number {
        case EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY:
            return .notStarted(file.map(text) ?? name, number)
        case ENOENT:
            // The file exists: its interpreter does not.
            guard let file, isThere(file) else { return .notFound(name) }
            return .notExecutable(text(file), "the interpreter that its first line names is missing")
        case ENOEXEC:
            return .notExecutable(text(file ?? command), "it is no program; a script needs a first line such as #!/bin/sh")
        case EACCES:
            let reason = isFolder(file ?? command) ? "it is a folder" : "no permission; try chmod +x"
            return .notExecutable(text(file ?? command), reason)
        default:
            return .notExecutable(text(file ?? command), errorText(number))
        }
    }

    private static func text(_ name: [UInt8]) -> String { String(validating: name, as: UTF8.self) ?? InterfaceName.text(name) }

    private static func isThere(_ file: [UInt8]) -> Bool {
        access(file.map(CChar.init(bitPattern:)) + [0], F_OK) == 0
    }

    private static func isFolder(_ file: [UInt8]) -> Bool {
        var information = stat()
        return stat(file.map(CChar.init(bitPattern:)) + [0], &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }
}

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
