import CommandKit
import ReachableFleet

/// The lines of `fleet --follow`: the picture, then each change.
///
/// Pure: the shell reads the picture and the time.
struct FleetFollower {
    private let site: FleetName
    private let format: OutputFormat
    private let style: TextStyle
    /// The nodes as the lines so far have shown them.
    private var shown: [FleetName: FleetNode] = [:]
    /// The number of the last change.
    private var last: UInt64?
    /// The time since which the picture is unknown, if a line has said so.
    private var unknownSince: Duration?
    private var hasPicture = false

    init(of site: FleetName, _ format: OutputFormat, _ style: TextStyle) {
        (self.site, self.format, self.style) = (site, format, style)
    }

    /// Returns the lines about a change.
    ///
    /// - Parameters:
    ///   - picture: The picture, read after the change.
    ///   - problem: The reason why the picture is unknown.
    ///   - now: The time of day.
    ///   - localOffset: The offset of local time from UTC in seconds.
    mutating func lines(
        for change: FleetChange, _ picture: FleetPicture, problem: String, at now: Duration, localOffset: Int = 0
    ) -> [String] {
        // A slow output has lost changes: the picture has them all.
        let hasGap = last.map { change.sequence > $0 + 1 } ?? false
        last = change.sequence
        let report = FleetReport(now: now, style: style, localOffset: localOffset)
        if hasGap { return picture.isCurrent ? all(picture, report) : unknown(picture, problem, report) }
        switch change.kind {
        case .current: return all(picture, report)
        case .unknown: return unknown(picture, problem, report)
        case .node(let node): return one(node, report)
        case .removed(let name): return removed(name, report)
        case .keptLongEnough, .nameInUse: return []
        }
    }

    private var width: Int { shown.keys.map(\.description.count).max() ?? 0 }

    private mutating func all(_ picture: FleetPicture, _ report: FleetReport) -> [String] {
        defer { (hasPicture, unknownSince) = (true, nil) }
        let old = shown
        shown = Dictionary(uniqueKeysWithValues: picture.nodes.map { ($0.name, $0) })
        if format == .json {
            return [JSONValue.picture(picture, of: site, problem: nil, at: report.now).description]
                + picture.nodes.map { JSONValue.node($0, at: report.now).description }
        }
        guard hasPicture else { return report.table(picture, of: site) }
        var lines: [String] = []
        if let unknownSince {
            lines.append(report.line(isCurrent: true, "after \(durationText(report.now - unknownSince)) unknown"))
        }
        lines += old.keys.filter { shown[$0] == nil }.sorted().map { report.removal(of: $0, width: width) }
        let changed = picture.nodes.filter { node in
            old[node.name].map { $0.lastState != node.lastState || $0.reason != node.reason || $0.run != node.run } ?? true
        }
        return lines + changed.map { report.line($0, after: old[$0.name], width: width) }
    }

    private mutating func unknown(_ picture: FleetPicture, _ problem: String, _ report: FleetReport) -> [String] {
        if format == .json {
            return [JSONValue.picture(picture, of: site, problem: hasPicture ? problem : nil, at: report.now).description]
        }
        // Before the first picture messages say why there is none.
        guard hasPicture, unknownSince == nil else { return [] }
        unknownSince = picture.unknownSince ?? report.now
        return [report.line(isCurrent: false, problem)]
    }

    private mutating func one(_ node: FleetNode, _ report: FleetReport) -> [String] {
        let old = shown.updateValue(node, forKey: node.name)
        return format == .json
            ? [JSONValue.node(node, at: report.now).description] : [report.line(node, after: old, width: width)]
    }

    private mutating func removed(_ name: FleetName, _ report: FleetReport) -> [String] {
        let width = width
        shown[name] = nil
        return format == .json
            ? [JSONValue.removal(of: name, at: report.now).description] : [report.removal(of: name, width: width)]
    }
}
