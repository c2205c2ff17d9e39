import Synchronization

/// Bursts of changes for a new machine.
struct FuzzHistory: CustomStringConvertible {
    /// The result of playing a history.
    struct Outcome: CustomStringConvertible {
        /// The number of bursts.
        var bursts = 0
        /// The numbers of bursts that concern a family.
        var ipv4 = 0
        var ipv6 = 0
        /// The number of published transitions of the internet's path.
        var transitions = 0
        /// The number of times that the kernel's answers varied.
        var ambiguities = 0
        var divergence: String?

        var description: String {
            "\(bursts) bursts (\(ipv4) of IPv4, \(ipv6) of IPv6), \(transitions) transitions, \(ambiguities) ambiguous, "
                + (divergence == nil ? "agreed" : "diverged")
        }
    }

    /// The time limit for the monitor: the kernel may delay a carrier event for 1 s.
    private static let patience: Duration = .seconds(3)

    let bursts: [[NetworkChange]]

    init(_ bursts: [[NetworkChange]]) { self.bursts = bursts }

    /// A shell script, with a comment line between bursts.
    var description: String { bursts.map { $0.map(\.description).joined(separator: "\n") }.joined(separator: "\n# settles\n") }

    func upTo(_ count: Int) -> FuzzHistory { FuzzHistory(Array(bursts.prefix(count))) }

    /// Applies the changes until the monitor and the kernel disagree.
    func play() async throws -> Outcome {
        let machine = try await FuzzedMachine()
        var outcome = Outcome()
        try await machine.running {
            do {
                try await machine.settle(within: Self.patience)
                for burst in bursts {
                    outcome.bursts += 1
                    if burst.contains(where: \.isIPv4) { outcome.ipv4 += 1 }
                    if burst.contains(where: \.isIPv6) { outcome.ipv6 += 1 }
                    try await machine.make(burst)
                    try await machine.settle(within: Self.patience)
                    let faults = machine.faults
                    guard faults.isEmpty else { throw FuzzedMachine.Divergence(description: faults.joined(separator: "\n")) }
                }
            } catch let divergence as FuzzedMachine.Divergence {
                outcome.divergence = divergence.description
            }
        }
        outcome.transitions = machine.watches.first?.raw.count ?? 0
        outcome.ambiguities = machine.ambiguities.load(ordering: .relaxed)
        return outcome
    }

    /// Returns the shortest history with a disagreement that is found within the time.
    ///
    /// It omits whole bursts first, then single changes: halves, quarters and so on (Zeller and Hildebrandt, "Simplifying and
    /// Isolating Failure-Inducing Input", 2002).
    func reduced(within time: Duration) async throws -> (history: FuzzHistory, isReproduced: Bool) {
        let clock = ContinuousClock()
        let deadline = clock.now + time
        guard clock.now < deadline, let failed = try await failing(bursts) else { return (self, false) }
        var shortest = try await Self.reduced(failed, until: deadline) { try await failing($0) }
        let changes = shortest.enumerated().flatMap { number, burst in burst.map { (number, $0) } }
        let fewer = try await Self.reduced(changes, until: deadline) { changes in
            try await failing(Self.bursts(changes)).map { _ in changes }
        }
        shortest = Self.bursts(fewer)
        return (FuzzHistory(shortest), true)
    }

    private static func bursts(_ changes: [(Int, NetworkChange)]) -> [[NetworkChange]] {
        Dictionary(grouping: changes, by: \.0).sorted { $0.key < $1.key }.map { $0.value.map(\.1) }
    }

    /// Returns the bursts up to the first disagreement; `nil` without one.
    private func failing(_ bursts: [[NetworkChange]]) async throws -> [[NetworkChange]]? {
        let outcome = try await FuzzHistory(bursts).play()
        return outcome.divergence == nil ? nil : Array(bursts.prefix(outcome.bursts))
    }

    private static func reduced<Element>(
        _ elements: [Element], until deadline: ContinuousClock.Instant, _ failing: ([Element]) async throws -> [Element]?
    ) async throws -> [Element] {
        var elements = elements
        var size = elements.count / 2
        while size > 0 {
            var start = 0
            while start < elements.count, ContinuousClock.now < deadline {
                var fewer = elements
                fewer.removeSubrange(start..<min(start + size, elements.count))
                if let found = try await failing(fewer) { elements = found } else { start += size }
            }
            size /= 2
        }
        return elements
    }
}
