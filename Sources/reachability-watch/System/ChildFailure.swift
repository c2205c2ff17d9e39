import Glibc

/// A command that did not succeed.
struct ChildFailure: Error, Hashable, CustomStringConvertible {
    /// How it failed.
    enum Cause: Hashable {
        /// It ended with this code.
        case exited(Int32)
        /// This signal ended it.
        case signaled(Int32)
        /// There is no such command.
        case notFound(String)
        /// It cannot be executed: which file, and why.
        case notExecutable(String, String)
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
        case .notExecutable: 126
        }
    }

    /// Whether another attempt would be in vain.
    ///
    /// A shell that does not find a command, or cannot execute it, ends with the same codes as this program then does.
    var isFinal: Bool { wasToldToEnd || code == 126 || code == 127 }

    var description: String {
        switch cause {
        case .exited(let code): "exit code \(code)"
        case .signaled(let signal): "ended by signal \(signal) (\(String(cString: strsignal(signal))))"
        case .notFound(let command):
            "\(command) was not found; " + (command.contains("/") ? "is the path right?" : "is it installed, and on the PATH?")
        case .notExecutable(let file, let reason): "\(file) cannot be executed: \(reason)"
        }
    }
}
