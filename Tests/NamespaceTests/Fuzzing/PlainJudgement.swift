/// What is to be said about a scope, judged by the rules for people and nothing else: would the kernel send, from a usable source,
/// through a usable interface; and if not, what is missing.
///
/// Written apart from the monitor's own judgement, in another way, so that they do not share mistakes.
struct PlainJudgement {
    /// What is asked about: any one family will do, but each family needs all of its destinations.
    struct Subject: Hashable, Sendable {
        var name: String
        var destinations: [String]
        var mark = 0

        var questions: [KernelView.Question] { destinations.map { KernelView.Question(destination: $0, mark: mark) } }
    }

    /// Words for why not, later ones count more.
    private static let order = [
        "noInterface", "adminDown", "noCarrier", "dormant", "noAddress", "addressTentative", "noRoute", "unreachable", "prohibited",
        "blackhole",
    ]

    let view: KernelView

    /// All that may be said about a subject: one thing, unless the kernel itself does not always answer the same.
    func verdicts(_ subject: Subject) -> Set<Verdict> {
        let ipv4 = families(subject.questions.filter { !$0.isIPv6 })
        let ipv6 = families(subject.questions.filter(\.isIPv6))
        return Set(ipv4.flatMap { one in ipv6.map { Self.verdict(one, $0) } })
    }

    private static func verdict(_ ipv4: Verdict.Family, _ ipv6: Verdict.Family) -> Verdict {
        let isSatisfied = ipv4.way != nil || ipv6.way != nil
        let reasons = [ipv4.reason, ipv6.reason].compactMap(\.self)
        let status = isSatisfied ? "satisfied" : "unsatisfied \(order.last { reasons.contains($0) } ?? "-")"
        return Verdict(status: status, ipv4: ipv4, ipv6: ipv6)
    }

    private func families(_ questions: [KernelView.Question]) -> [Verdict.Family] {
        guard !questions.isEmpty else { return [Verdict.Family()] }
        var combinations: [[(KernelView.Question, KernelView.Answer)]] = [[]]
        for question in questions {
            combinations = combinations.flatMap { start in (view.answers[question] ?? []).map { start + [(question, $0)] } }
        }
        return Array(Set(combinations.map(family)))
    }

    /// The first destination describes the family if all are good, the first bad one says why not.
    private func family(_ answers: [(question: KernelView.Question, answer: KernelView.Answer)]) -> Verdict.Family {
        var ways: [String] = []
        for (question, answer) in answers {
            switch answer {
            case .refusal("No route to host"): return Verdict.Family(reason: "unreachable")
            case .refusal("Permission denied"): return Verdict.Family(reason: "prohibited")
            case .refusal("Invalid argument"): return Verdict.Family(reason: "blackhole")
            case .refusal: return Verdict.Family(reason: missing(question.isIPv6))
            case .way(let device, let gateway, let source):
                guard let link = view.links.first(where: { $0.ifname == device }), isWorking(link), let source, isGood(source)
                else { return Verdict.Family(reason: missing(question.isIPv6)) }
                ways.append(Verdict.way(device, link.ifindex ?? 0, gateway, source))
            }
        }
        return Verdict.Family(way: ways.first)
    }

    private func isWorking(_ link: KernelView.Link) -> Bool {
        let flags = link.flags ?? []
        return flags.contains("UP") && flags.contains("LOWER_UP") && !flags.contains("LOOPBACK")
            && ["UP", "UNKNOWN"].contains(link.operstate)
    }

    private func isGood(_ source: String) -> Bool {
        if source == "::1" || source.hasPrefix("127.") || source.hasPrefix("fe80:") || source.hasPrefix("169.254.") { return false }
        return view.links.flatMap { $0.addresses ?? [] }.contains { $0.local == source && isReady($0) }
    }

    private func isReady(_ address: KernelView.Link.Address) -> Bool {
        address.dadfailed != true && (address.tentative != true || address.optimistic == true)
    }

    /// How far the interface got that got furthest.
    private func missing(_ isIPv6: Bool) -> String {
        let steps = view.links.filter { $0.flags?.contains("LOOPBACK") != true }.map { link -> String in
            let flags = link.flags ?? []
            if !flags.contains("UP") { return "adminDown" }
            if !flags.contains("LOWER_UP") { return "noCarrier" }
            if !["UP", "UNKNOWN"].contains(link.operstate) { return "dormant" }
            let held = (link.addresses ?? []).filter { address in
                address.family == (isIPv6 ? "inet6" : "inet") && address.local?.hasPrefix("fe80:") != true
                    && address.local?.hasPrefix("169.254.") != true
            }
            if held.contains(where: isReady) { return "noRoute" }
            return held.contains { $0.dadfailed != true } ? "addressTentative" : "noAddress"
        }
        return Self.order.last { steps.contains($0) } ?? "noInterface"
    }
}
