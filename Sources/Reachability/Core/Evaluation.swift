/// One evaluation, from a batch of events to the transitions that follow from it.
///
/// ``MonitorCore/begin(_:)`` makes it, the monitor fills in the kernel's answers, ``MonitorCore/applyVerdicts(to:)`` decides about
/// conditions, and ``MonitorCore/finish(_:)`` about streams.
package struct Evaluation: Sendable {
    /// The part of a dump of links and addresses in an evaluation.
    package enum Dump: Sendable {
        /// The table is as current as events make it.
        case none
        /// Events were lost: a new table confirms the changes that lookups find.
        case toConfirm
        /// The table is read first.
        case needed
        /// The table was read.
        case done
    }

    /// The validator's part in an evaluation.
    package struct Validation: Sendable {
        /// The answer to the pending requests.
        package var answer: ValidationState.Answer?
        package var step: ValidationState.Step?
        /// The path to validate.
        package var path: NetworkPath
    }

    package let now: Duration
    package let wallTime: Duration
    /// The interface table that lookups are judged by.
    package private(set) var table: InterfaceTable
    package var dump = Dump.none
    /// The new addresses for the source to watch; `nil` if they stay as they are.
    package var destinations: Set<IPAddress>?
    /// The links to read again before the lookups, as their messages may come late.
    package var links: [UInt32] = []
    /// The changes that reading links again found.
    package private(set) var linkChanges: [NetworkInterface] = []
    /// The gateways behind bridges, whose ports are asked for after publication.
    package var bridged: Set<BridgedGateway> = []
    /// The ports of these gateways.
    package var ports: [BridgedGateway: UInt32] = [:]
    /// The new gateways for the source to watch; `nil` if they stay as they are.
    package var gateways: Set<IPAddress>?
    /// The scopes to look up, in the order in which they were added.
    package var scopes: [ScopeEvaluation] = []
    /// The errors of failed requests.
    package var failures: [ReachabilityError] = []
    package var isAudit = false
    /// True if all stale scopes are evaluated, none put off.
    var isComplete = false
    /// True if an event led here, or a timer that an event set.
    var isExplained = false

    /// The scopes that became steady.
    var steadied: Set<Scope> = []
    /// The transitions to publish.
    package var transitions: [StreamTransition] = []
    /// The hosts to look up.
    package var hosts: [String] = []
    /// The time until the monitor wants an empty batch.
    package var wait: Duration?
    package var validation: Validation?

    init(_ table: InterfaceTable, now: Duration, wallTime: Duration) {
        (self.table, self.now, self.wallTime) = (table, now, wallTime)
    }

    /// True if a lookup was answered.
    var hasVerdicts: Bool { scopes.contains { $0.path != nil } }

    /// True if a verdict differs from the known path.
    package var hasChanges: Bool { scopes.contains { $0.path != nil && $0.path != $0.known } }

    /// Takes over a dump.
    package mutating func noteDump(_ interfaces: [NetworkInterface]) {
        (table, dump) = (InterfaceTable(interfaces, table.memory), .done)
    }

    /// Takes over links that were read again.
    package mutating func noteLinks(_ links: [NetworkInterface]) {
        for var link in links {
            guard let known = table[link.index] else { continue }
            link.addresses = known.addresses
            if link == known { continue }
            linkChanges.append(link)
            _ = table.apply(.link(link))
        }
        // An event of one family may have led here, and a link carries both.
        if !linkChanges.isEmpty {
            for place in scopes.indices { scopes[place].families = .all }
        }
    }

    /// Drops all answers, to look up every address again.
    package mutating func discardVerdicts() {
        failures = []
        for place in scopes.indices {
            scopes[place].path = nil
            scopes[place].details = RouteDetails()
            scopes[place].families = .all
        }
    }
}

/// The evaluation of one scope.
package struct ScopeEvaluation: Sendable {
    package let scope: Scope
    /// The scope's place among all: a scope that was released and watched again meanwhile has another one.
    let order: UInt64
    /// The path of the last evaluation.
    package let known: NetworkPath?
    /// True if the details of the known path were read.
    package let isDescribed: Bool
    /// The addresses of the scope's host.
    package let host: [IPAddress]
    /// The reason why the scope's host has no addresses.
    package let nameLookupFailure: NameLookupFailure?
    /// The families to look up; the known path still holds for the other one.
    package var families: FamilySet
    /// The verdict; `nil` until the kernel answered.
    package var path: NetworkPath?
    /// The table entries that still have to be read to describe the path.
    package var details = RouteDetails()
    /// The earliest end of its routes' lifetimes, or `.some(nil)` without one; `nil` if the details were not read.
    package var expiry: Duration??
    /// The change that the verdict made to the scope.
    var change: ScopeChange?

    package init(
        _ scope: Scope, known: NetworkPath? = nil, isDescribed: Bool = true, host: [IPAddress] = [],
        nameLookupFailure: NameLookupFailure? = nil, families: FamilySet = .all, order: UInt64 = 0
    ) {
        (self.scope, self.known, self.isDescribed, self.host) = (scope, known, isDescribed, host)
        (self.nameLookupFailure, self.families, self.order) = (nameLookupFailure, families, order)
    }
}

/// The change that a verdict made to a scope.
package struct ScopeChange: Equatable, Sendable {
    /// The path before; `nil` for the first verdict.
    package var old: NetworkPath?
    /// The level and epoch afterwards, as conditions show them.
    package var state = Condition.State()
    /// True if the egress link lost its carrier and got it back between two evaluations.
    package var blinked = false
    /// True if an interface joined or left what the egress tunnel stands on.
    package var changedGround = false
    /// True if the scope was satisfied before and is not now.
    package var lost = false
    /// True if the level or the epoch changed.
    package var conditionChanged = false
    /// True for the first verdict after a suspension.
    package var resumed = false
    /// True while the path changes too often to be relied on.
    package var isUnsteady = false
    /// True if the evaluation was requested: the condition's observers are called even if nothing changed.
    package var wasRequested = false

    package init(old: NetworkPath? = nil, blinked: Bool = false, resumed: Bool = false) {
        (self.old, self.blinked, self.resumed) = (old, blinked, resumed)
    }

    /// Returns true if the verdict differs from the one before in more than minor details.
    func isNews(_ path: NetworkPath) -> Bool { blinked || resumed || old.map { !path.kinds(since: $0).isEmpty } ?? true }
}

/// The table entries that describe a path: the prefix length and metric of its routes.
///
/// Levels and epochs do not depend on them, so they are read after conditions were updated.
package struct RouteDetails: Sendable {
    private var ipv4: RouteQuery?
    private var ipv6: RouteQuery?
    /// The entries that only tell when they end: IPv6 routes that lead to other members, or over an interface that fails.
    package private(set) var others: [RouteQuery] = []

    package init() {}

    /// Makes the queries for a path: for each satisfied family the entry of the first route that leads to another machine.
    package init(of path: NetworkPath, _ decisions: [Decision]) {
        for decision in decisions where !decision.verdict.isLocal {
            switch decision.query.destination.family {
            case .ipv4: if ipv4 == nil && path.supportsIPv4 { ipv4 = decision.query.entry(behind: decision.verdict) }
            case .ipv6:
                let entry = decision.query.entry(behind: decision.verdict)
                if ipv6 == nil && path.supportsIPv6 { ipv6 = entry } else if let entry { others.append(entry) }
            }
        }
    }

    package var isEmpty: Bool { ipv4 == nil && ipv6 == nil && others.isEmpty }

    package var queries: [RouteQuery] { [ipv4, ipv6].compactMap(\.self) + others }
}

extension RouteQuery {
    /// Returns the query for the table entry behind an answer; `nil` if there is none.
    package func entry(behind verdict: RouteVerdict) -> RouteQuery? {
        guard case .route(let route) = verdict, route.table != 0 || route.isLocal else { return nil }
        var query = matching
        if query.source == .selected { query.source = route.source.map(Source.address) ?? .unspecified }
        return query
    }
}

/// One kind of stream of one scope.
package struct StreamKey: Hashable, Sendable {
    package var scope: Scope
    package var isRaw: Bool

    package init(scope: Scope, isRaw: Bool) {
        self.scope = scope
        self.isRaw = isRaw
    }
}

/// A transition to publish to one kind of stream.
package struct StreamTransition: Sendable {
    package var key: StreamKey
    package var transition: Transition
}

extension [StreamTransition] {
    /// Adds the transitions of a scope.
    mutating func append(_ published: ScopeState.Published, of scope: Scope) {
        if let transition = published.raw {
            append(StreamTransition(key: StreamKey(scope: scope, isRaw: true), transition: transition))
        }
        if let transition = published.damped {
            append(StreamTransition(key: StreamKey(scope: scope, isRaw: false), transition: transition))
        }
    }
}
