/// A violated requirement of a protocol, found by one of the conformance suites.
public struct ConformanceViolation<Requirement>: Hashable, Sendable, CustomStringConvertible
where Requirement: RawRepresentable<String> & Hashable & Sendable {
    /// The violated requirement.
    public var requirement: Requirement
    /// The observation that violates it.
    public var message: String

    /// Makes a violation.
    public init(_ requirement: Requirement, _ message: String) {
        self.requirement = requirement
        self.message = message
    }

    /// The name of the requirement and the observation.
    public var description: String { "\(requirement.rawValue): \(message)" }
}

/// The error of a conformance suite's `check()`: all violations.
public struct ConformanceFailure<Requirement>: Error, CustomStringConvertible
where Requirement: RawRepresentable<String> & Hashable & Sendable {
    /// The violations, at least one.
    public var violations: [ConformanceViolation<Requirement>]

    /// Makes an error from violations.
    public init(_ violations: [ConformanceViolation<Requirement>]) { self.violations = violations }

    /// One line for each violation.
    public var description: String { "violated requirements:" + violations.map { "\n- \($0)" }.joined() }
}
