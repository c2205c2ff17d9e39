import Reachability

/// Transitions of one scope, one second apart.
struct ScopeStory {
    private var sequence: UInt64 = 0
    private var seconds: Int64 = 0
    private var path: NetworkPath?

    static let online = NetworkPath(
        status: .satisfied,
        ipv4: FamilyPath(
            isSatisfied: true, interface: .init(index: 2, name: "eth0"), gateway: IPAddress("192.0.2.1"),
            source: IPAddress("192.0.2.10"), table: 254, metric: 100, prefixLength: 0),
        ipv6: FamilyPath(reason: .noRoute), interface: NetworkInterface(index: 2, name: "eth0"))
    static let offline = NetworkPath(
        status: .unsatisfied, offlineReason: .noCarrier, ipv4: FamilyPath(reason: .noCarrier), ipv6: FamilyPath(reason: .noCarrier))

    /// Returns the baseline or the transition to a path, `delay` seconds after the one before.
    mutating func next(_ path: NetworkPath, after delay: Int64 = 1, detail: String = "eth0 changed") -> Transition {
        let isBaseline = self.path == nil
        if !isBaseline { sequence += 1 }
        seconds += delay
        defer { self.path = path }
        return Transition(
            sequence: sequence, epoch: 1, previous: self.path, current: path,
            kinds: isBaseline ? [] : path.isSatisfied ? .online : .offline,
            cause: isBaseline ? Cause(.started, "") : Cause(.linkDown, detail), at: BootInstant(sinceBoot: .seconds(seconds)),
            wallTime: .seconds(1_767_225_600 + seconds), flapPenalty: 0)
    }
}
