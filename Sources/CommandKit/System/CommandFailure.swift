/// A failure of a command, with its exit status.
package struct CommandFailure: Error, Hashable, CustomStringConvertible {
    package var status: ExitStatus
    /// The problem and, after `next:`, the remedy.
    package var message: String

    package init(_ status: ExitStatus, _ message: String) { (self.status, self.message) = (status, message) }

    package var description: String { message }
}
