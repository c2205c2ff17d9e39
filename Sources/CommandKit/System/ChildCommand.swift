import Glibc
import Reachability

/// The failure of a command.
package struct ChildFailure: Error, Hashable, Codable, CustomStringConvertible {
    /// The kind of failure.
    package enum Cause: Hashable, Codable {
        /// Exited with this code.
        case exited(Int32)
        /// Killed by this signal.
        case signaled(Int32)
        /// Does not exist.
        case notFound(String)
        /// Cannot be executed: the file and the reason.
        case notExecutable(String, String)
        /// Cannot be started now, for lack of a resource: the file and the error number.
        case notStarted(String, Int32)
        /// The directory to run in cannot be entered: the directory and the error number.
        case noDirectory(String, Int32)
    }

    package var cause: Cause
    /// The reason for which this program ended the command; `nil` if it ended by itself.
    package var interruption: ChildEnd.Interruption?

    /// Creates it.
    package init(cause: Cause, interruption: ChildEnd.Interruption? = nil) {
        (self.cause, self.interruption) = (cause, interruption)
    }

    /// The exit code: a shell shows the same one.
    package var code: Int32 {
        switch cause {
        case .exited(let code): code
        case .signaled(let signal): 128 + signal
        case .notFound: 127
        case .notExecutable, .notStarted: 126
        case .noDirectory: 125
        }
    }

    /// `true` if another attempt is useless or unwanted.
    ///
    /// A shell that cannot find or execute a command uses the same codes as this program.
    package var isFinal: Bool { interruption == .signal || !isPassing && (code == 126 || code == 127) }

    /// `true` if a temporary shortage of this machine prevented the start.
    package var isPassing: Bool { if case .notStarted = cause { true } else { false } }

    package var description: String {
        switch cause {
        case .exited(let code): "exit code \(code)"
        case .signaled(let signal): "ended by signal \(signal) (\(String(cString: strsignal(signal))))"
        case .notFound(let command):
            "\(command) was not found; next: " + (command.contains("/") ? "check the path" : "install it, or correct the PATH")
        case .notExecutable(let file, let reason): "\(file) cannot be executed: \(reason)"
        case .notStarted(let file, let number): "\(file) cannot be started now: \(errorText(number)) (errno \(number))"
        case .noDirectory(let directory, let number):
            "the directory \(directory) cannot be entered: \(errorText(number)); next: create or mount it"
        }
    }
}

extension ProcessStart {
    /// The failure of a program that is missing or not executable; `nil` if it can be started.
    package var obstacle: ChildFailure? {
        var found: [UInt8]?
        for file in files {
            var information = stat()
            let path = ForeignText(file).cString
            guard stat(path, &information) == 0 else { continue }
            if information.st_mode & S_IFMT != S_IFDIR, access(path, X_OK) == 0 { return nil }
            found = found ?? file
        }
        return ChildFailure(cause: .starting(words.first ?? [], found, found == nil ? ENOENT : EACCES))
    }
}

extension ChildFailure.Cause {
    /// Returns the cause for an error of fork(2) or execve(2).
    ///
    /// - Parameters:
    ///   - command: The name on the command line.
    ///   - file: The file of the error.
    package static func starting(_ command: [UInt8], _ file: [UInt8]?, _ number: Int32) -> Self {
        let name = text(command)
        switch number {
        case EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY:
            return .notStarted(file.map(text) ?? name, number)
        case ENOENT:
            // The file exists, but its interpreter does not.
            guard let file, isThere(file) else { return .notFound(name) }
            return .notExecutable(text(file), "the interpreter in its first line is missing; next: correct that line")
        case ENOEXEC:
            return .notExecutable(text(file ?? command), "not a program; next: begin a script with a line such as #!/bin/sh")
        case EACCES:
            let reason =
                isFolder(file ?? command) ? "it is a directory; next: name a program in it" : "permission denied; next: chmod +x"
            return .notExecutable(text(file ?? command), reason)
        default:
            return .notExecutable(text(file ?? command), "\(errorText(number)); next: try it without reachability-watch")
        }
    }

    private static func text(_ name: [UInt8]) -> String { ForeignText(name).text }

    private static func isThere(_ file: [UInt8]) -> Bool { access(ForeignText(file).cString, F_OK) == 0 }

    private static func isFolder(_ file: [UInt8]) -> Bool {
        var information = stat()
        return stat(ForeignText(file).cString, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }
}

/// A command that is executed once or several times.
package struct ChildCommand: Sendable {
    private let start: ProcessStart
    private let supervisor: ChildSupervisor

    /// Creates it.
    package init(_ start: ProcessStart, supervisor: ChildSupervisor) { (self.start, self.supervisor) = (start, supervisor) }

    /// Runs the command until it ends.
    ///
    /// Cancellation sends SIGTERM, and SIGKILL five seconds later, to the command and all its descendants; the command then fails
    /// whatever its code.
    package func run() async throws(ChildFailure) {
        switch await supervisor.run(start) {
        case .ended(let end):
            switch end.status {
            case .exited(0) where end.interruption == nil: return
            case .exited(let code): throw ChildFailure(cause: .exited(code), interruption: end.interruption)
            case .signaled(let signal): throw ChildFailure(cause: .signaled(signal), interruption: end.interruption)
            }
        case .failed(let errno, let file):
            let tried = file.flatMap { start.files.indices.contains($0) ? start.files[$0] : nil }
            throw ChildFailure(cause: .starting(start.words.first ?? [], tried, errno))
        }
    }
}
