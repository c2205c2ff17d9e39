/// The way from a bus to the other machines of its site, which lose and regain the same servers.
///
/// A machine of a fleet makes one: see ``RetryBus/Configuration/site``. Thread-safe.
public struct SiteSharing: Sendable {
    /// A bus's connection to the site.
    package struct Link: Sendable {
        /// Reports an event of a destination; must not block.
        package var report: @Sendable (_ destination: String, SiteReport) -> Void
        /// Ends the connection.
        package var leave: @Sendable () -> Void

        package init(
            report: @escaping @Sendable (_ destination: String, SiteReport) -> Void, leave: @escaping @Sendable () -> Void
        ) {
            (self.report, self.leave) = (report, leave)
        }
    }

    /// Connects a bus, which receives advice about its destinations.
    ///
    /// Advice may come during the report that causes it, on the same thread.
    package let join: @Sendable (_ advise: @escaping @Sendable (SiteAdvice, _ destination: String) -> Void) -> Link

    package init(join: @escaping @Sendable (_ advise: @escaping @Sendable (SiteAdvice, _ destination: String) -> Void) -> Link) {
        self.join = join
    }
}
