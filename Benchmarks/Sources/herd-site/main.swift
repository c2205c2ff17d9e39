import Glibc

/// The sites of `bench herd`: machines that know how many they are, and machines that do not, in virtual time.
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

var holds = true
var setup = HerdSite.Setup()
print("| machines | fleet | false up | seed | × ideal | attempts per job | in false up | peak 100 ms | peak 1 s | goal |")
print("|---|---|---|---|---|---|---|---|---|---|")
for hosts in [1, arguments[0]] {
    var alone: [Double] = []
    for isFleet in [false, true] {
        (setup.hosts, setup.isFleet) = (hosts, isFleet)
        let site = HerdSite(setup)
        for lag in [Duration.zero, .seconds(3)] {
            for seed in 1...arguments[1] {
                var copy = site
                let figures = copy.run { ($0.lag, $0.seed) = (lag, UInt64(seed)) }
                let starts = figures.starts.sorted()
                var verdict = "–"
                if isFleet {
                    // One machine is as quick as without a fleet.
                    let isFast = figures.makespan <= 1.7 && figures.attemptsPerJob <= 1.6
                    let isMet = figures.isComplete && (hosts > 1 ? isFast : alone.contains(figures.makespan))
                    (verdict, holds) = (isMet ? "holds" : "MISSED", holds && isMet)
                } else {
                    alone.append(figures.makespan)
                }
                let makespan = figures.isComplete ? decimal(figures.makespan, 3) : "no end"
                let cells = [
                    "\(hosts)", isFleet ? "yes" : "no", lag == .zero ? "–" : "\(lag)", "\(seed)", makespan,
                    decimal(figures.attemptsPerJob, 3), "\(figures.early)", "\(peak(starts, .milliseconds(100)))",
                    "\(peak(starts, .seconds(1)))", verdict,
                ]
                print("| " + cells.joined(separator: " | ") + " |")
                fflush(nil)
            }
        }
    }
}
exit(holds ? 0 : 1)
