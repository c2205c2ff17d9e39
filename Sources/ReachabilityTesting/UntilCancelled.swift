/// Suspends until the calling task is cancelled.
///
/// Work that ends only when it is told to, for tests of cancellation.
package func untilCancelled() async {
    // Without elements and without an end; the iteration ends with its task.
    for await _ in AsyncStream<Never>.makeStream().stream {}
}
