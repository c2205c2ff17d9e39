import ReachableHTTP
import ReachableJobs
import ReachableRetry

/// A job: the server gets a version of a note.
struct SendNote: JobParameters {
    static let jobName = "send note"
    var name: String
    var text: String

    /// Jobs of one note run in the order of their pushes.
    var options: DurableOptions { DurableOptions(destination: "notes", serialKey: name) }
}

/// The server of the notes.
protocol NoteServer: Sendable {
    /// Stores a note; a request with a key that the server has seen changes nothing.
    func put(_ note: SendNote, key: String) async throws
}

extension JobQueue {
    /// Registers the handlers of all kinds of jobs.
    func registerNotes(_ server: some NoteServer, delivered: @escaping @Sendable (SendNote) throws -> Void) {
        registerJob(parameters: SendNote.self, policy: .notes) { note, attempt in
            try await server.put(note, key: attempt.idempotencyKey)
            try delivered(note)
        }
    }
}

extension RetryPolicy {
    /// Tries until the server has the note or refuses it.
    static let notes = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(300)).jitter(.full))
        .giveUpAfter(maxAttempts: nil)
        .attemptTimeout(.seconds(60))
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
        .classifyingHTTP()
}
