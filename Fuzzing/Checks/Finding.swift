/// Something that must hold of every input, and did not.
struct Finding: Error, CustomStringConvertible {
    let description: String

    /// Throws unless a rule holds.
    static func check(_ holds: Bool, _ rule: @autoclosure () -> String) throws(Finding) {
        if !holds { throw Finding(description: rule()) }
    }
}
