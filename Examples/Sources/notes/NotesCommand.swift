import Foundation
import ReachableJobs
import ReachableRetry

@main struct NotesCommand {
    static func main() async throws {
        var words = CommandLine.arguments.dropFirst()
        guard let command = words.popFirst(), let path = words.popFirst() else { return print(usage) }
        if command == "serve", let url = words.popFirst().flatMap(URL.init) { return try await serve(path, to: url) }
        let notes = try Notes(path, bus: .shared)
        switch (command, words.popFirst(), words.popFirst()) {
        case ("save", let name?, let text?): try notes.save(Note(name: name, text: text))
        case ("list", nil, nil): try await list(notes)
        case ("cancel", let name?, nil):
            for job in try await notes.queue.jobs(matching: JobFilter(uniqueKey: name)) { try await notes.queue.cancel(job.id) }
        case ("retry", let name?, nil):
            for job in try await notes.queue.jobs(matching: JobFilter(uniqueKey: name)) { try await notes.queue.retry(job.id) }
        case ("pause", nil, nil): try await notes.queue.pause()
        case ("resume", nil, nil): try await notes.queue.resume()
        default: print(usage)
        }
    }

    /// Prints the notes that the server lacks.
    static func list(_ notes: Notes) async throws {
        for job in try await notes.queue.jobs() where job.state != .succeeded {
            guard let note = job.parameters(as: SendNote.self) else { continue }
            let failure = job.lastError.map { ", last failure: \($0)" } ?? ""
            print("\(note.name): \(note.text) (\(job.state), \(job.counters.started) attempts\(failure))")
        }
    }

    static let usage = """
        notes save FILE NAME TEXT | notes serve FILE URL | notes list FILE
        notes cancel FILE NAME | notes retry FILE NAME | notes pause FILE | notes resume FILE
        """
}
