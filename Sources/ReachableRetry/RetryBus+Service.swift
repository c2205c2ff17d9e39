#if ServiceLifecycle
public import ServiceLifecycle

/// Only with the package's trait `ServiceLifecycle`.
extension RetryBus: Service {
    /// Waits for the graceful shutdown, and then ends the bus: jobs that wait are cancelled, attempts that run may end.
    ///
    /// In a group it belongs behind its monitor, for the last is shut down first; and behind the services that wait for their jobs,
    /// which otherwise would wait for as long as the network is away: the bus ends those jobs. Services that only submit jobs may
    /// come after it. Jobs run without it, too.
    ///
    /// How long attempts may take at the end is the group's to say (`maximumGracefulShutdownDuration`); when the task is cancelled
    /// they are cancelled, and awaited. Returns when no job is left.
    public func run() async {
        do {
            try await gracefulShutdown()
        } catch {
            await shutdown(drain: .zero)
            return
        }
        _ = await withTaskCancellationHandler {
            await shutdown(drain: nil)
        } onCancel: {
            beginShutdown(drain: .zero)
        }
    }
}
#endif
