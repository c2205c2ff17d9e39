/// Names a job: one that the caller chose, or one that the bus gives.
public struct JobID: Hashable, Sendable {
    enum Name: Hashable, Sendable {
        case chosen(String)
        /// With the job's place, where it is found at once.
        case numbered(UInt64, JobKey)
    }

    let name: Name

    /// Whether it is the caller's.
    var isChosen: Bool { if case .chosen = name { true } else { false } }

    init(_ name: Name) { self.name = name }

    /// Makes an identifier of the caller's.
    public init(_ name: String) { self.name = .chosen(name) }
}

extension JobID: ExpressibleByStringLiteral {
    /// Makes an identifier of the caller's.
    public init(stringLiteral value: String) { self.init(value) }
}

extension JobID: CustomStringConvertible {
    /// The caller's name, or `#` and the bus's number.
    public var description: String {
        switch name {
        case .chosen(let name): name
        case .numbered(let number, _): "#\(number)"
        }
    }
}
