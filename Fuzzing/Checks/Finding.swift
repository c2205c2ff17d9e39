/// A broken rule.
struct Finding: Error, CustomStringConvertible {
    let description: String

    /// Throws unless a rule holds.
    static func check(_ holds: Bool, _ violation: @autoclosure () -> String) throws(Finding) {
        if !holds { throw Finding(description: violation()) }
    }
}
