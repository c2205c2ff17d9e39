/// Every step of the verdict about a scope, for people who want to know why.
package struct Explanation: Sendable {
    /// One question to the forwarding table.
    package struct Lookup: Sendable {
        package var query: RouteQuery
        package var verdict: RouteVerdict
        /// The table's entry, if there is a route.
        package var match: RouteVerdict?
        /// The judgement of the answer; `nil` if the next lookup, with a source, decides instead.
        package var judgement: PathEvaluator.Judgement?
    }

    package var scope: Scope
    package var path: NetworkPath
    package var interfaces: [NetworkInterface]
    package var lookups: [Lookup]
    /// What each interface but the loopback device lacks, by index; `noRoute` for one that lacks nothing.
    package var layers: [UInt32: OfflineReason]
}
