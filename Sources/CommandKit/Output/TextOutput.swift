import ArgumentParser
package import Reachability

/// The text of `explain`: every step of a verdict.
package struct ExplanationText {
    private let explanation: Explanation
    private let style: TextStyle

    /// Creates it.
    package init(explanation: Explanation, style: TextStyle) { (self.explanation, self.style) = (explanation, style) }

    /// The lines, without line ends.
    package var lines: [String] {
        var lines = ["\(style.strong(ForeignText(explanation.scope.description).terminal)): \(style.verdict(explanation.path))"]
        lines += section("interfaces", explanation.interfaces.map(interface), "none")
        lines += section("lookups", explanation.lookups.map(lookup), "none: \(reasonForNoLookup)")
        lines += section("families", [family("IPv4", explanation.path.ipv4), family("IPv6", explanation.path.ipv6)], "")
        let caveats = explanation.caveats.map { "not checked: \(ForeignText($0.detail).terminal)" }
        if !caveats.isEmpty { lines += [""] + caveats }
        if let remedy = Remedy(explanation) { lines += [""] + remedy.lines }
        return lines
    }

    /// The reason why nothing was looked up.
    private var reasonForNoLookup: String {
        explanation.path.nameLookupFailure?.description ?? explanation.path.obstacle?.description
            ?? "there is no address to look up"
    }

    private func section(_ title: String, _ rows: [String], _ empty: String) -> [String] {
        ["", style.strong(title)] + (rows.isEmpty ? [empty] : rows).map { "  " + ForeignText($0).terminal }
    }

    private func interface(_ interface: NetworkInterface) -> String {
        let state = RouteNames.operationalState(interface.operationalState.rawValue) ?? "\(interface.operationalState)"
        var parts = [
            interface.kind.rawValue, interface.isUp ? "up" : "shut down", interface.hasCarrier ? "carrier" : "no carrier",
            "operational state \(state)",
        ]
        parts.append(
            interface.addresses.isEmpty ? "no addresses" : interface.addresses.map(Self.address).joined(separator: " "))
        let layer = explanation.layers[interface.index]
        let end = layer.map { $0 == .noRoute ? "" : " -- stops here: \($0)" } ?? ""
        let names = ([interface.name] + interface.alternativeNames).joined(separator: ", altname ")
        return "\(interface.index) \(names): \(parts.joined(separator: ", "))\(end)"
    }

    private static func address(_ address: NetworkInterface.Address) -> String {
        let text = "\(address.address)/\(address.prefixLength)"
        if address.hasFailedDetection { return "\(text) (duplicate)" }
        guard address.isTentative else { return text }
        return address.isOptimistic ? "\(text) (optimistic)" : "\(text) (tentative)"
    }

    private func lookup(_ lookup: Explanation.Lookup) -> String {
        let question = "\(lookup.query.destination)\(qualifiers(lookup.query))"
        switch lookup.verdict {
        case .refused(let errno):
            let reason = lookup.verdict.refusalReason.map { ": \($0)" } ?? ""
            let isLast = lookup.judgement != nil
            return "\(question) -> \(errorName(errno)) (\(errorText(errno)))\(reason)\(isLast ? "" : "; repeated with a source")"
        case .route(let route):
            var parts = [route.isLocal ? "local" : nil, "dev \(name(route.interface))"].compactMap(\.self)
            parts.append(route.gateway.map { "gateway \($0)" } ?? "on link")
            parts.append(route.source.map { "source \($0)" } ?? "no source")
            parts.append("table \(RouteNames.table(route.table) ?? "\(route.table)")")
            parts += match(lookup)
            return "\(question) -> \(parts.joined(separator: ", ")): \(judgement(lookup))"
        }
    }

    /// Returns the properties of the matching table entry.
    private func match(_ lookup: Explanation.Lookup) -> [String] {
        guard case .route(let match) = lookup.match else { return [] }
        var parts = ["metric \(match.metric ?? 0)"]
        if let number = match.routingProtocol { parts.append("protocol \(RouteNames.routingProtocol(number) ?? "\(number)")") }
        if let number = match.scope { parts.append("scope \(RouteNames.scope(number) ?? "\(number)")") }
        if let length = match.prefixLength { parts.append("matched \(IPPrefix(lookup.query.destination, length: length))") }
        for hop in lookup.failingHops {
            parts.append("next hop \(hop.interface.name) fails (\(hop.reason.map { "\($0)" } ?? "its gateway does not answer"))")
        }
        return parts
    }

    private func qualifiers(_ query: RouteQuery) -> String {
        var text = query.interface.map { " bound to \(name($0))" } ?? ""
        if let mark = query.mark { text += " mark 0x\(hexadecimal(mark, digits: 1))" }
        if let uid = query.uid { text += " uid \(uid)" }
        switch query.source {
        case .unspecified: break
        case .address(let source): text += " from \(source)"
        case .selected: text += " from the address that connect(2) selects"
        }
        return text
    }

    private func judgement(_ lookup: Explanation.Lookup) -> String {
        switch lookup.judgement {
        case .usable:
            lookup.notAsked.isEmpty
                ? "usable" : "usable; not asked: \(lookup.notAsked.map { "\($0)" }.joined(separator: ", "))"
        case .refused(let reason): "not usable: \(reason)"
        case .noWay: "not usable: \(obstacle(lookup))"
        case nil: "repeated with that source"
        }
    }

    /// Returns the reason why a route is unusable although the kernel returned it.
    private func obstacle(_ lookup: Explanation.Lookup) -> String {
        guard case .route(let route) = lookup.verdict else { return "refused" }
        guard let interface = explanation.interfaces.first(where: { $0.index == route.interface }) else {
            return "the interface is gone"
        }
        if interface.isLoopback, !route.isLocal { return "it leads to the loopback device" }
        return "without a route the kernel assumes that the destination is on the link"
    }

    private func family(_ name: String, _ path: FamilyPath) -> String {
        if path.isSatisfied {
            return "\(name): satisfied\(path.partialReason.map { ", some connections fail: \($0)" } ?? "")"
        }
        return path.reason.map { "\(name): unsatisfied: \($0)" } ?? "\(name): not looked up"
    }

    private func name(_ index: UInt32) -> String {
        explanation.interfaces.first { $0.index == index }?.name ?? "interface \(index)"
    }
}

/// The appearance of text output: colours and signs.
package struct TextStyle: Hashable {
    /// `true` to colour words.
    package var hasColor = false
    /// `true` to use signs beyond ASCII.
    package var hasUnicode = true

    /// Returns the style for an environment (environ(7)).
    ///
    /// By default no colour if NO_COLOR is set and not empty (no-color.org), or if TERM is unset, empty or `dumb`. The locale comes
    /// from the first of the variables in the order of locale(7).
    package init(color: ColorChoice = .auto, environment: (String) -> String?, isTerminal: Bool) {
        let isPlain = environment("NO_COLOR")?.isEmpty == false || ["", "dumb"].contains(environment("TERM") ?? "")
        hasColor = color == .always || color == .auto && isTerminal && !isPlain
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
        let name = locale.lowercased()
        hasUnicode = name.contains("utf-8") || name.contains("utf8")
    }

    /// Returns a fixed style.
    package init(hasColor: Bool = false, hasUnicode: Bool = true) {
        self.hasColor = hasColor
        self.hasUnicode = hasUnicode
    }

    /// Returns the sign and the word of a status, all of the same width.
    package func label(_ status: NetworkPath.Status) -> String {
        let word = status.word
        return colored("\(sign(status)) \(word)\(String(repeating: " ", count: 7 - word.count))", status)
    }

    /// Returns the sign of a status, which stands beside each coloured word.
    package func sign(_ status: NetworkPath.Status) -> String {
        switch status {
        case .satisfied: hasUnicode ? "●" : "+"
        case .unsatisfied: hasUnicode ? "○" : "-"
        case .unknown: hasUnicode ? "◌" : "?"
        }
    }

    /// Returns text in the colour of a status, with the sign before it; without colour the text as scripts know it.
    package func signed(_ text: String, _ status: NetworkPath.Status) -> String {
        hasColor ? colored("\(sign(status)) \(text)", status) : text
    }

    /// Returns text in the colour of a status, which must not be the only sign of it.
    package func colored(_ text: String, _ status: NetworkPath.Status) -> String {
        switch status {
        case .satisfied: colored(text, "32")
        case .unsatisfied: colored(text, "31")
        case .unknown: colored(text, "33")
        }
    }

    /// Returns dimmed text.
    package func dimmed(_ text: String) -> String { colored(text, "2") }

    /// Returns bold text.
    package func strong(_ text: String) -> String { colored(text, "1") }

    private func colored(_ text: String, _ code: String) -> String {
        hasColor ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text
    }
}

/// The text of `watch` for the transitions of one scope.
///
/// Keeps the time of the last status change for "after 4.2s".
package struct TransitionText {
    private let style: TextStyle
    /// The scope's name on each line; `nil` for a single scope.
    private let scope: String?
    private let localOffset: @Sendable (Duration) -> Int
    private var clock = StatusClock()

    /// - Parameters:
    ///   - scope: The scope's name; `nil` for a single scope.
    ///   - localOffset: Returns the offset of local time from UTC in seconds.
    package init(style: TextStyle, scope: String?, localOffset: @escaping @Sendable (Duration) -> Int) {
        self.style = style
        self.scope = scope
        self.localOffset = localOffset
    }

    /// Returns one line, without its end.
    ///
    /// - Parameter hasGap: True if transitions before this one were lost.
    package mutating func line(for transition: Transition, hasGap: Bool = false) -> String {
        // A monitor that ends before its first event has no wall time.
        let time = transition.wallTime == .zero ? nil : CalendarTime(transition.wallTime, offset: localOffset(transition.wallTime))
        var line = time.map { style.dimmed($0.plain) + "  " } ?? ""
        line += "\(style.label(transition.current.status))  "
        if let scope { line += style.strong(ForeignText(scope).terminal) + "  " }
        return line + ForeignText(text(of: transition, hasGap)).terminal
    }

    private mutating func text(of transition: Transition, _ hasGap: Bool) -> String {
        let isExact = clock.isExact
        let elapsed = clock.elapsed(before: transition, hasGap: hasGap)
        let previous = transition.previous?.status ?? .unknown
        guard let elapsed, previous != .unknown, previous != transition.current.status else { return transition.text(elapsed: nil) }
        return transition.text(elapsed: (isExact ? "after " : "after at least ") + durationText(elapsed))
    }
}

extension Remedy {
    /// The lines about it: the missing layer, and the next step.
    package var lines: [String] { ["missing: \(ForeignText(missing).terminal)", "next:    \(command)"] }
}

/// Returns the lines of `status` about a scope, without their ends: the verdict, and below it what to mend, if that is known.
package func statusLines(_ explanation: Explanation, _ format: OutputFormat, _ style: TextStyle) -> [String] {
    let verdict = statusLine(explanation.path, of: explanation.scope, format, style)
    guard format == .text, Remedy.namesCulprit(of: explanation), let remedy = Remedy(explanation) else { return [verdict] }
    return [verdict] + remedy.lines.map { "  \($0)" }
}

/// Returns a line of `status`, without its end.
package func statusLine(_ path: NetworkPath, of scope: Scope, _ format: OutputFormat, _ style: TextStyle) -> String {
    switch format {
    case .json: JSONValue.status(path, of: scope).description
    case .text: "\(style.strong(ForeignText(scope.description).terminal)): \(style.verdict(path))"
    }
}

extension TextStyle {
    /// Returns a verdict in words: `satisfied via eth0, …` or `unsatisfied: no carrier`.
    package func verdict(_ path: NetworkPath) -> String {
        let summary = ForeignText(path.summary).terminal
        let word = signed(path.status.rawValue, path.status)
        return switch path.status {
        case .satisfied: "\(word) \(summary)"
        case .unsatisfied: "\(word): \(summary)"
        case .unknown: word
        }
    }
}

/// The use of colour.
package enum ColorChoice: String, CaseIterable, ExpressibleByArgument {
    /// Colour on a terminal that has it, unless NO_COLOR is set.
    case auto
    case always
    case never
}

/// The form of the output.
package enum OutputFormat: String, CaseIterable, ExpressibleByArgument {
    /// Lines for people.
    case text
    /// One JSON object a line.
    case json
}
