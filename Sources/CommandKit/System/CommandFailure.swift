import Glibc

/// A failure of a command, with its exit status.
package struct CommandFailure: Error, Hashable, CustomStringConvertible {
    package var status: ExitStatus
    /// The problem and, after `next:`, the remedy.
    package var message: String

    package init(_ status: ExitStatus, _ message: String) { (self.status, self.message) = (status, message) }

    /// Creates the failure of a file, with the remedy for its `errno`.
    ///
    /// - Parameters:
    ///   - name: The file as people see it.
    ///   - action: The word for what cannot be done with it.
    ///   - remedy: The remedy for all other errors.
    package init(_ status: ExitStatus, _ name: String, cannotBe action: String, _ error: Int32, otherwise remedy: String) {
        let next =
            switch error {
            case ENOSPC, EDQUOT: "free space on its disk"
            case EFBIG: "raise the file size limit, e.g. `ulimit -f unlimited`"
            case ENOENT: "create its directory"
            default: remedy
            }
        self.init(status, "\(name) cannot be \(action): \(errorText(error)) (errno \(error)); next: \(next)")
    }

    package var description: String { message }
}
