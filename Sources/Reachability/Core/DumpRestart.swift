/// What to do about a dump that changed while it was made (NLM_F_DUMP_INTR), or had to stand back for another one (EBUSY):
/// make it again, a few times, after pauses that grow.
package enum DumpRestart {
    /// How often a dump is made again at most.
    package static let limit = 5

    /// How long to wait before a restart, the first one being number 0.
    package static func pause(before restart: Int) -> Duration {
        .milliseconds(10 << max(0, min(restart, limit)))
    }

    /// Makes a dump until it succeeds.
    ///
    /// - Parameters:
    ///   - rest: waits for a time.
    ///   - attempt: makes the dump, or returns `nil` if it has to be made again. It is told whether this is the last time: then
    ///     something inconsistent is better than nothing, because what keeps changing announces itself.
    package static func repeating<Dump>(
        rest: (Duration) -> Void, _ attempt: (_ isLast: Bool) throws(ReachabilityError) -> Dump?
    ) throws(ReachabilityError) -> Dump? {
        for restart in 0..<limit {
            if let dump = try attempt(false) { return dump }
            rest(pause(before: restart))
        }
        return try attempt(true)
    }
}
