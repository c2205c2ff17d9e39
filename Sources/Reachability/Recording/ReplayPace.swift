/// How fast a recording is replayed.
public struct ReplayPace: Sendable {
    /// Returns when a batch is due, so long after the first one.
    typealias Wait = @Sendable (_ offset: Duration) async throws -> Void

    /// No recording lasts longer; a file that says so is waited for as long as this.
    private static let longest: Duration = .seconds(100 * 365 * 86_400)

    /// Starts the clock.
    let start: @Sendable () -> Wait

    /// One batch after the other, as fast as they are taken.
    public static let unlimited = ReplayPace(start: { { _ in await Task.yield() } })

    /// As the time passed while the recording was made, measured by a clock.
    ///
    /// - Parameters:
    ///   - clock: what measures the time.
    ///   - speed: how many recorded seconds pass in one of the clock's: 2 is twice as fast. From 0.001 to 1 000 000; what is
    ///     beyond counts as the nearer of these, and what is no number as 1.
    public static func following(_ clock: some Clock<Duration>, speed: Double = 1) -> ReplayPace {
        let speed = speed.isNaN ? 1 : min(max(speed, 0.001), 1_000_000)
        return ReplayPace(start: {
            let start = clock.now
            return { offset in
                let offset = min(max(offset, .zero), longest)
                try await clock.sleep(until: start.advanced(by: offset / speed), tolerance: nil)
            }
        })
    }
}
