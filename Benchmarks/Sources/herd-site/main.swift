import Glibc

/// The sites of `bench herd`: machines with and without the words of the others, in virtual time.
///
/// Arguments: the number of machines, and of seeds.
let arguments = CommandLine.arguments.dropFirst().compactMap { Int($0) }
guard arguments.count == 2, arguments.allSatisfy({ (1...5000).contains($0) }) else {
    print("usage: herd-site <machines> <seeds>")
    exit(64)
}

func decimal(_ number: Double, _ digits: Int) -> String {
    let scale = (0..<digits).reduce(1.0) { scale, _ in scale * 10 }
    return "\((number * scale).rounded() / scale)"
}

/// Returns the most times in a span of that width.
func peak(_ sorted: [Duration], _ width: Duration) -> Int {
    var (from, most) = (0, 0)
    for (index, time) in sorted.enumerated() {
        while sorted[from] <= time - width { from += 1 }
        most = max(most, index - from + 1)
    }
    return most
}

let cases: [(name: String, change: (inout HerdSite.Setup) -> Void, goal: Double?)] = [
    ("no lag", { _ in }, 1.3),
    ("a false up of 3 s", { $0.lag = .seconds(3) }, 1.3),
    ("a tenth without a broker", { $0.cutOff = 0.1 }, 1.5),
    (
        "a tenth without a broker, a false up of 3 s",
        {
            $0.cutOff = 0.1
            $0.lag = .seconds(3)
        }, 1.5
    ),
    ("1 % liars", { $0.liars = 0.01 }, nil),
    (
        "1 % liars, a false up of 3 s",
        {
            $0.liars = 0.01
            $0.lag = .seconds(3)
        }, nil
    ),
]

var setup = HerdSite.Setup()
var holds = true
print("| machines | words | case | seed | × ideal | attempts per job | in false up | peak 100 ms | peak 1 s | words said | goal |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
for hosts in [1, arguments[0]] {
    for isShared in [false, true] {
        (setup.hosts, setup.isShared) = (hosts, isShared)
        let site = try HerdSite(setup)
        // Without words, and with one machine, neither the broker nor liars matter.
        for (name, change, goal) in isShared && hosts > 1 ? cases[...] : cases.prefix(2) {
            for seed in 1...arguments[1] {
                var copy = site
                let figures = try copy.run { setup in
                    change(&setup)
                    setup.seed = UInt64(seed)
                }
                let starts = figures.starts.sorted()
                var verdict = "–"
                if isShared, hosts > 1, let goal {
                    let isMet = figures.isComplete && figures.makespan <= goal && (goal > 1.3 || figures.attemptsPerJob <= 1.1)
                    (verdict, holds) = (isMet ? "holds" : "MISSED", holds && isMet)
                }
                let makespan = figures.isComplete ? decimal(figures.makespan, 3) : "no end"
                let cells = [
                    "\(hosts)", isShared ? "shared" : "none", name, "\(seed)", makespan, decimal(figures.attemptsPerJob, 3),
                    "\(figures.early)", "\(peak(starts, .milliseconds(100)))", "\(peak(starts, .seconds(1)))", "\(figures.words)",
                    verdict,
                ]
                print("| " + cells.joined(separator: " | ") + " |")
                fflush(nil)
            }
        }
    }
}
exit(holds ? 0 : 1)
