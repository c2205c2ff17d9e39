/// The figures of some runs, in Markdown.
struct HerdTable {
    private var lines = [
        row([
            "release", "first s", "median s", "last s", "peak 100 ms", "peak 1 s", "attempts per job", "offline", "in false up",
            "charged there", "succeeded", "makespan s", "× ideal",
        ]),
        row([String](repeating: "---", count: 13)),
    ]

    /// - Parameter cut: what is said of a run that did not end.
    mutating func add(_ name: String, _ figures: HerdFigures, cut: String) {
        let makespan =
            figures.isComplete ? [decimal(figures.makespan, 1), decimal(figures.overIdeal)] : ["no end: cut after \(cut)", ""]
        lines.append(
            row(
                [
                    name, decimal(figures.first, 3), decimal(figures.median, 1), decimal(figures.last, 1), "\(figures.peak100)",
                    "\(figures.peak1000)", decimal(figures.perJob), "\(figures.offline)", "\(figures.early)",
                    "\(figures.earlyCharged)", "\(figures.ended) of \(figures.jobs)",
                ] + makespan))
    }

    var text: String { lines.joined(separator: "\n") }
}

/// The expectation for one machine with the gate.
struct HerdGoals {
    private let name: String
    private let figures: HerdFigures
    private let hasLag: Bool

    init(_ name: String, _ figures: HerdFigures, hasLag: Bool) {
        (self.name, self.figures, self.hasLag) = (name, figures, hasLag)
    }

    private var all: [(goal: String, value: String, holds: Bool)] {
        let usual = [
            ("all succeed", "\(figures.ended) of \(figures.jobs)", figures.isComplete),
            ("makespan ≤ 1.3 × ideal", decimal(figures.overIdeal, 3), figures.isComplete && figures.overIdeal <= 1.3),
            ("≤ 1.05 attempts per job", decimal(figures.perJob, 3), figures.perJob <= 1.05),
            ("none offline", "\(figures.offline)", figures.offline == 0),
        ]
        guard hasLag else { return usual }
        return usual + [
            ("≤ 15 in the false up", "\(figures.early)", figures.early <= 15),
            ("none of them charged", "\(figures.earlyCharged)", figures.earlyCharged == 0),
        ]
    }

    var hold: Bool { all.allSatisfy { $0.holds } }

    /// A line.
    var text: String {
        "Goals for \(name): "
            + all.map { "\($0.goal): \($0.value), \($0.holds ? "holds" : "MISSED")" }.joined(separator: "; ") + "."
    }
}
