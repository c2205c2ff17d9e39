/// A simulated network was asked for something that cannot be, such as an address on a link that does not exist.
///
/// The change it belongs to was not made.
public struct SimulationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was being done, such as `addAddress("eth0", "192.0.2.10/24")`.
    public var operation: String
    /// Why it cannot be, and what would do.
    public var message: String

    /// Makes an error.
    public init(_ operation: String, _ message: String) {
        self.operation = operation
        self.message = message
    }

    /// The operation and the cause.
    public var description: String { "\(operation): \(message)" }
}
