import ReachableJobs
import ReachableRetry

/// Returns the queue that all machines share.
///
/// - Parameter database: The connection string; libpq takes missing parts from `PGHOST`, `PGUSER` and so on.
func orderQueue(_ database: String, bus: RetryBus, name: String = "default") -> JobQueue {
    var configuration = JobQueue.Configuration()
    configuration.name = name
    return JobQueue(PostgreSQLStore(database, bus: bus, installsTables: true), bus: bus, configuration: configuration)
}
