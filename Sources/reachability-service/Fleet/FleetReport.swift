import CommandKit
import Reachability
import ReachableFleet

/// The nodes of a site as lines for people.
///
/// Pure: times are arguments.
struct FleetReport {
    /// The time of day, since 1970.
    let now: Duration
    let style: TextStyle
    /// The offset of local time from UTC in seconds.
    let localOffset: Int

    init(now: Duration, style: TextStyle, localOffset: Int = 0) {
        (self.now, self.style, self.localOffset) = (now, style, localOffset)
    }

    // MARK: - The table

    /// Returns the nodes as a table with a heading; one line if there are none.
    func table(_ picture: FleetPicture, of site: FleetName) -> [String] {
        guard !picture.nodes.isEmpty else { return ["no node of the site \(site) has announced itself yet"] }
        let rows = [["NODE", "STATE", "SINCE", "SEEN", "REASON"]] + picture.nodes.map(cells)
        let widths = (0..<4).map { column in rows.map { StyledText($0[column]).columns }.max() ?? 0 }
        return rows.enumerated().map { index, cells in
            var line = zip(cells, widths).map { $0 + String(repeating: " ", count: $1 - StyledText($0).columns) }
            if index > 0 { line[1] = colored(line[1], picture.nodes[index - 1].state) }
            let text = (line + cells.suffix(1)).joined(separator: "  ")
            let trimmed = text.reversed().drop { $0 == " " }.reversed()
            return index == 0 ? style.strong(String(trimmed)) : String(trimmed)
        }
    }

    private func cells(_ node: FleetNode) -> [String] {
        let isConnected = node.state.isConnected
        let begin = "\(node.hasUnknownEnd ? "after " : "")\(moment(node.begin))"
        let age = durationText(now - node.lastSeen)
        let seen = isConnected ? "now" : "\(age) ago\(node.hasUnknownEnd ? " or later" : "")"
        return ["\(node.name)", label(node.state), begin, seen, reason(node)]
    }

    private func reason(_ node: FleetNode) -> String {
        if node.isOld { return "old; if it is gone: reachability-watch fleet forget \(node.name)" }
        return node.reasonText ?? ""
    }

    // MARK: - Changes

    /// Returns the line of a node's change.
    ///
    /// - Parameters:
    ///   - old: The node before; `nil` for a new one.
    ///   - width: The columns of names.
    func line(_ node: FleetNode, after old: FleetNode?, width: Int) -> String {
        var parts: [String] = []
        if let reason = node.reasonText { parts.append(reason) }
        if let old, old.run != node.run { parts.append("started again") }
        if let old, old.lastState != node.lastState {
            parts.append("after \(old.hasUnknownEnd ? "at most " : "")\(durationText(now - old.begin)) \(old.lastState.rawValue)")
        } else if old == nil {
            parts.append("new")
        }
        return line(label(node.state), node.state, "\(node.name)", width: width, parts.joined(separator: ", "))
    }

    /// Returns the line of a removed node.
    func removal(of name: FleetName, width: Int) -> String {
        line("\(style.hasUnicode ? "–" : "-") removed", nil, "\(name)", width: width, "its word is gone from the broker")
    }

    /// Returns the line of a picture that has become unknown, or that is known again.
    ///
    /// - Parameter text: The reason, or the length of the time in which it was unknown.
    func line(isCurrent: Bool, _ text: String) -> String {
        isCurrent
            ? line("\(sign(.online)) known", .online, "all nodes", width: 0, text)
            : line("\(sign(.unknown)) unknown", .unknown, "all nodes", width: 0, text)
    }

    private func line(_ label: String, _ state: FleetNode.State?, _ name: String, width: Int, _ text: String) -> String {
        let time = style.dimmed(CalendarTime(now, offset: localOffset).plain)
        let padded = label + String(repeating: " ", count: max(0, Self.labelWidth - label.count))
        let shown = state.map { colored(padded, $0) } ?? padded
        let name = text.isEmpty ? name : name + String(repeating: " ", count: max(0, width - name.count))
        return "\(time)  \(shown)  \(style.strong(name))\(text.isEmpty ? "" : "  \(ForeignText(text).terminal)")"
    }

    /// The sign, a space and the longest word.
    private static let labelWidth = 2 + (FleetNode.State.allCases.map(\.rawValue.count).max() ?? 0)

    // MARK: - Parts

    /// Returns the second of a time, in local time.
    private func moment(_ time: Duration) -> String {
        let local = CalendarTime(time, offset: localOffset).plain
        return String(local.prefix { $0 != "." })
    }

    private func label(_ state: FleetNode.State) -> String { "\(sign(state)) \(state.rawValue)" }

    private func sign(_ state: FleetNode.State) -> String {
        switch state {
        case .online: style.sign(.satisfied)
        case .degraded: style.hasUnicode ? "◐" : "~"
        case .offline: style.sign(.unsatisfied)
        case .disconnected: style.hasUnicode ? "–" : "-"
        case .lost: style.hasUnicode ? "✕" : "x"
        case .unknown: style.sign(.unknown)
        }
    }

    private func colored(_ text: String, _ state: FleetNode.State) -> String {
        switch state {
        case .online: style.colored(text, .satisfied)
        case .degraded, .unknown: style.colored(text, .unknown)
        case .offline, .lost: style.colored(text, .unsatisfied)
        case .disconnected: style.dimmed(text)
        }
    }
}

extension FleetNode {
    /// The beginning of its last state: for a lost node the last sign of life.
    var begin: Duration { lastState == .lost ? lastSeen : since }

    /// True for a node that was lost at an unknown time: only the start of its lost connection is known.
    var hasUnknownEnd: Bool { lastState == .lost && lastSeen == since }

    /// The reason in words; `nil` if there is none.
    var reasonText: String? {
        reason.map { name in
            switch name {
            case "captivePortal": "captive portal"
            case "validationFailed": "the check of the internet fails"
            default: OfflineReason.all.first { $0.rawValue == name }?.description ?? ForeignText(name).terminal
            }
        }
    }
}

extension FleetNode.State {
    /// True if the node is connected to the broker.
    var isConnected: Bool { self == .online || self == .degraded || self == .offline }
    /// True if the node is there for those that need it.
    var isPresent: Bool { self == .online || self == .degraded }
}
