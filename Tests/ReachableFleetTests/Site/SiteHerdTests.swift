import SiteHerd
import TestTraits
import Testing

/// A hundred machines that lose and regain one server; `Benchmarks/run herd` has a thousand.
@Suite(.serialized, .timeLimit(.minutes(10)), .computing) struct SiteHerdTests {
    private static let setup = {
        var setup = HerdSite.Setup()
        setup.hosts = 100
        return setup
    }()

    /// A late answer of the first machine takes up to 5 s of 8 s.
    private static let cases: [(name: String, change: @Sendable (inout HerdSite.Setup) -> Void, makespan: Double, attempts: Double)] = [
        ("all share", { _ in }, 1.1, 1.01),
        ("a false up of 3 s", { $0.lag = .seconds(3) }, 1.4, 1.1),
        ("a tenth without a broker", { $0.cutOff = 0.1 }, 1.3, 1.1),
        ("a tenth without a broker, and a false up", { $0.cutOff = 0.1; $0.lag = .seconds(3) }, 1.5, 1.2),
        ("liars", { $0.liars = 0.03 }, 2.2, 1.1),
    ]

    @Test func machinesThatShareDoNotStorm() throws {
        let site = try HerdSite(Self.setup)
        for (name, change, makespan, attempts) in Self.cases {
            for seed in 1...2 as ClosedRange<UInt64> {
                var copy = site
                let figures = try copy.run { setup in
                    change(&setup)
                    setup.seed = seed
                }
                let text = "\(name), seed \(seed): \(figures.makespan) × the ideal, \(figures.attemptsPerJob) attempts per job"
                #expect(figures.isComplete, "\(text)")
                #expect(figures.makespan <= makespan && figures.attemptsPerJob <= attempts, "\(text)")
            }
        }
    }

    @Test func brokerThatComesBackWithTheNetworkDelaysLittle() throws {
        var setup = Self.setup
        setup.losesBroker = true
        var site = try HerdSite(setup)
        let figures = try site.run()
        #expect(figures.isComplete && figures.makespan <= 1.5, "\(figures.makespan)")
    }
}
