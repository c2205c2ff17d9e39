import Glibc
import ReachableFleet
import SiteHerd
import TestTraits
import Testing

@Suite(.serialized, .timeLimit(.minutes(30)), .computing) struct SiteHerdTests {
    @Test func tryout() throws {
        func number(_ name: String, _ usual: Int) -> Int { getenv(name).flatMap { Int(String(cString: $0)) } ?? usual }
        var setup = HerdSite.Setup()
        setup.hosts = number("HERD_HOSTS", 100)
        let clock = ContinuousClock()
        for isShared in [false, true] {
            setup.isShared = isShared
            let start = clock.now
            let site = try HerdSite(setup)
            print("prepared in \(clock.now - start)")
            for (name, change) in [
                ("plain", { _ in }), ("lag", { (s: inout HerdSite.Setup) in s.lag = .seconds(3) }),
                ("cut", { (s: inout HerdSite.Setup) in s.cutOff = 0.1 }),
                ("liars", { (s: inout HerdSite.Setup) in s.liars = 0.01 }),
            ] as [(String, (inout HerdSite.Setup) -> Void)] {
                for seed in 1...number("HERD_SEEDS", 1) {
                    let begin = clock.now
                    var copy = site
                    let f = try copy.run { change(&$0); $0.seed = UInt64(seed) }
                    print("shared \(isShared) \(name) \(seed): makespan \(f.makespan) attempts \(f.attemptsPerJob) early \(f.early) done \(f.successes.count)/\(f.jobs) words \(f.words) messages \(f.messagesPerHost) in \(clock.now - begin)")
                    fflush(stdout)
                }
            }
        }
    }
}
