import Foundation
import Logging
import Reachability
import ReachableJobs
import ReachableRetry
import ServiceLifecycle
import UnixSignals

/// Delivers notes until a signal ends the process.
func serve(_ path: String, to url: URL) async throws {
    let monitor = ReachabilityMonitor()
    let bus = RetryBus(monitor)
    let notes = try Notes(path, bus: bus)
    notes.queue.registerNotes(HTTPNoteServer(url: url)) { note in
        try notes.markDelivered(note)
        say("delivered \(note.name): \(note.text)")
    }
    // The last service is shut down first: running attempts still need the bus.
    let group = ServiceGroup(
        services: [monitor, bus, notes.queue], gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "notes"))
    // Cancelled when the group has ended.
    async let _: Void = report(notes.queue.events)
    try await group.run()
}

/// Prints a line for each attempt and failure.
func report(_ events: AsyncStream<JobQueueEvent>) async {
    for await event in events {
        switch event.kind {
        case .attemptStarted(let number): say("attempt \(number)")
        case .willRetry(let error): say("failed, and runs again: \(error ?? "")")
        case .failed(let reason, let error): say("failed for good (\(reason)): \(error ?? "")")
        default: break
        }
    }
}

/// Writes a line at once, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
